import { mergeConfig } from 'vitest/config';
import base from '../vitest.config.ts';

const { find, replace } = JSON.parse(process.env.STICKPIN_MUTANT ?? '{}') as { find: string; replace: string };
const isOfSource = (id: string) => /\/src\/.*\.ts$/.test(id);

/** The tests with one fault in the source. */
const config = mergeConfig(base, {
  plugins: [
    {
      name: 'mutant',
      enforce: 'pre',
      transform: (code: string, id: string) =>
        isOfSource(id) && code.includes(find) ? code.replace(find, () => replace) : undefined,
    },
  ],
});
// Projects take plugins from the root only where they extend it.
for (const project of config.test?.projects ?? []) Object.assign(project, { extends: true });
export default config;

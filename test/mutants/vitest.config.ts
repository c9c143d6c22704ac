import { defineConfig, mergeConfig } from 'vitest/config';
import base from '../vitest.config.ts';

const { find, replace } = JSON.parse(process.env.STICKPIN_MUTANT ?? '{}') as { find: string; replace: string };
const mutant = {
  name: 'mutant',
  enforce: 'pre' as const,
  transform: (code: string, id: string) =>
    /\/src\/.*\.ts$/.test(id) && code.includes(find) ? code.replace(find, () => replace) : undefined,
};

/** The tests with one fault in the source. Projects have no plugins of the root. */
const config = mergeConfig(base, defineConfig({}));
for (const project of config.test?.projects ?? []) Object.assign(project, { plugins: [mutant] });
export default config;

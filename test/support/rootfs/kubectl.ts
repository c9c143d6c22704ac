import { debianPrograms } from './debian-programs.ts';

const recipe = { version: 1, suite: 'trixie', packages: ['kubectl'] };

/**
 * The folder with `kubectl` 1.32 from Debian trixie: that of Debian 12 does not know `wait
 * --for=jsonpath`.
 */
export async function kubectlPrograms(): Promise<string> {
  return debianPrograms('kubectl', recipe);
}

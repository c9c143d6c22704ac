import { debianPrograms } from './debian-programs.ts';

const recipe = { version: 1, suite: 'testing', packages: ['containerd'] };

/**
 * The folder with the programs of containerd 2 (`containerd`, `ctr`) from Debian's suite `testing`.
 */
export async function containerdTwoPrograms(): Promise<string> {
  return debianPrograms('containerd-two', recipe);
}

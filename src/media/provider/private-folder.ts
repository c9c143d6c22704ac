import { chmod, mkdir } from 'node:fs/promises';

/**
 * Makes a folder that only its owner may enter, with any umask. The mode of an existing folder is
 * changed. @throws system errors
 */
export async function makePrivateFolder(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
  await chmod(path, 0o700);
}

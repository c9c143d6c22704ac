import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, open, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { SupportFact } from '../../cli/context/command-adapters.ts';

const run = promisify(execFile);

/**
 * Packs files into `path`, a tar packed with gzip, in their order and below a folder with the name
 * of the archive. Only its owner may read it. An existing file is not replaced.
 *
 * @throws system errors as they are, `EEXIST` when there is a file already
 */
export async function packReport(path: string, files: readonly SupportFact[], signal: AbortSignal): Promise<void> {
  const work = await mkdtemp(join(tmpdir(), 'stickpin-report-'));
  const name = basename(path).replace(/\.tar\.gz$|\.tgz$/, '');
  // A name of its own: one that a broken run left must not be in the way.
  const part = join(dirname(path), `.${basename(path)}.${randomUUID()}.part`);
  let isOurs = false;
  try {
    // Nobody may have put something else there.
    await (await open(path, 'wx', 0o600)).close();
    isOurs = true;
    await mkdir(join(work, name), { mode: 0o700 });
    for (const { file, text } of files) await writeFile(join(work, name, file), text, { signal, mode: 0o600 });
    const members = files.map(({ file }) => `${name}/${file}`);
    await (await open(part, 'wx', 0o600)).close();
    await run('tar', ['--create', '--gzip', '--file', part, '--directory', work, ...members], { signal });
    await rename(part, path);
  } catch (error) {
    await rm(part, { force: true });
    if (isOurs) await rm(path, { force: true });
    throw error;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

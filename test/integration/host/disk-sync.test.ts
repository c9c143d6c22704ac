import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SyncProgram } from '../../../src/host/disk-sync.ts';

const signal = new AbortController().signal;

/** In place of sync(1): it writes down its arguments, and does what the file `do` says. */
const PROGRAM = `#!/bin/sh
echo "$*" >> "$SYNC_FOLDER/calls"
. "$SYNC_FOLDER/do"
`;

describe('the sync of filesystems', () => {
  const path = process.env.PATH;
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'stickpin-sync-'));
    await mkdir(join(folder, 'a'));
    await mkdir(join(folder, 'b'));
    await writeFile(join(folder, 'sync'), PROGRAM, { mode: 0o755 });
    process.env.SYNC_FOLDER = folder;
    process.env.PATH = `${folder}:${path}`;
  });

  afterAll(async () => {
    process.env.PATH = path;
    delete process.env.SYNC_FOLDER;
    await rm(folder, { recursive: true });
  });

  async function calls(
    script: string,
    paths: readonly string[],
    program = new SyncProgram(),
  ): Promise<{ readonly lines: readonly string[]; readonly error: string | undefined }> {
    await writeFile(join(folder, 'calls'), '');
    await writeFile(join(folder, 'do'), script);
    const error = await program.sync(paths, signal).then(
      () => undefined,
      (reason: Error) => reason.message,
    );
    const text = await readFile(join(folder, 'calls'), 'utf8');
    return { lines: text.split('\n').slice(0, -1), error };
  }

  it('is made once for each filesystem', async () => {
    const [a, b] = [join(folder, 'a'), join(folder, 'b')];
    expect(await calls('exit 0', [a, b, a])).toEqual({ lines: [`-f ${a}`], error: undefined });
    expect(await calls('exit 0', [a, '/proc'])).toEqual({ lines: [`-f ${a}`, '-f /proc'], error: undefined });
  });

  it('is one of the whole machine where no path is known, or one is hidden', async () => {
    expect(await calls('exit 0', [])).toEqual({ lines: [''], error: undefined });
    expect(await calls('exit 0', [join(folder, 'a'), '/hidden/from/us'])).toEqual({ lines: [''], error: undefined });
  });

  it('fails with what the program says, the path and what to do', async () => {
    const { error } = await calls("echo 'sync: error syncing: Input/output error' >&2; exit 1", [join(folder, 'a')]);
    expect(error).toContain(`the filesystem of ${folder}/a is not safe`);
    expect(error).toContain('Input/output error');
    expect(error).toContain('dmesg');
  });

  it('is given up after its deadline, and the next one waits for its end', async () => {
    const program = new SyncProgram(500);
    const { error } = await calls('exec sleep 300', [join(folder, 'a')], program);
    expect(error).toContain('did not answer within 500 ms');
    expect(await calls('exit 0', [join(folder, 'a')], program)).toMatchObject({ error: undefined });
  });

  it('works with the program of this machine', async () => {
    process.env.PATH = path;
    await new SyncProgram().sync([folder], signal);
    await expect(new SyncProgram().sync(['/proc'], signal)).resolves.toBeUndefined();
  });
});

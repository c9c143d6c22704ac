import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { beforeEach, expect, it } from 'vitest';
import {
  buildDirectory,
  replaceOutput,
  resumeDirectory,
  stagingPrefix,
} from '../../../../src/factory/output/staging.ts';
import { AppError } from '../../../../src/platform/app-error.ts';
import { writeNewFile } from '../../../../src/platform/files/durable-file.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const root = folderForEach();
let target: string;
beforeEach(() => {
  target = join(root, 'bundle');
});

/** As {@link stagingPrefix} of another process that runs now. */
async function prefixOf(pid: number, path = target): Promise<string> {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const startedAt = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  return (await stagingPrefix(path)).replace(/-[0-9]+-[0-9]+-$/, `-${pid}-${startedAt}-`);
}

function leave(prefix: string, ending = 'AbCd12'): string {
  const path = `${prefix}${ending}`;
  mkdirSync(join(path, 'blobs'), { recursive: true });
  writeFileSync(join(path, 'blobs', 'x'), 'half a blob');
  return basename(path);
}

const build = (to = target) =>
  buildDirectory(to, (staging) => writeNewFile(join(staging, 'x'), Buffer.from('x')), new AbortController().signal);

it('temporary files of a killed process are removed by the next one with the same target, and nothing else', async () => {
  const other = spawn('sleep', ['1000']);
  const pid = other.pid ?? 0;
  leave(await prefixOf(pid));
  const kept = [
    leave(await prefixOf(pid, join(root, 'bundle-2'))),
    leave(await stagingPrefix(target)),
    leave((await prefixOf(pid)).replace(/partial-[0-9a-f]{8}/, 'partial-00000000')),
    leave(join(root, '.bundle.partial-'), 'mine'),
  ];
  other.kill('SIGKILL');
  await once(other, 'exit');
  await build();
  expect(readdirSync(root).sort()).toEqual([...kept, 'bundle'].sort());
});

it('temporary files of a running process stay, and a second process with the same target is refused', async () => {
  const other = spawn('sleep', ['1000']);
  try {
    const kept = leave(await prefixOf(other.pid ?? 0));
    const message = expect.stringContaining(`is being written by process ${other.pid}`);
    const refused = { code: 'bundle/target', message };
    await expect(build()).rejects.toMatchObject(refused);
    const write = (temporary: string) => writeNewFile(temporary, Buffer.from('new'));
    await expect(replaceOutput(target, write)).rejects.toMatchObject(refused);
    expect(readdirSync(root)).toEqual([kept]);
  } finally {
    other.kill('SIGKILL');
    await once(other, 'exit');
  }
});

it('temporary files of an earlier boot, or of a process id that is in use again, are removed', async () => {
  const mine = await stagingPrefix(target);
  leave(mine.replace(/(partial-[0-9a-f]{8})-[0-9a-f]{8}/, '$1-00000000'));
  leave(mine.replace(/-[0-9]+-$/, '-1-'));
  await build();
  expect(readdirSync(root)).toEqual(['bundle']);
});

it('what a killed process left is continued where that is wanted, until the input is bad', async () => {
  const resume = (fault?: Error) =>
    resumeDirectory(
      target,
      async (staging) => {
        expect(readFileSync(join(staging, 'blobs', 'x'), 'utf8')).toBe('half a blob');
        if (fault !== undefined) throw fault;
      },
      new AbortController().signal,
    );
  leave((await stagingPrefix(target)).replace(/-[0-9]+-$/, '-1-'));
  await expect(resume(new Error('the link broke'))).rejects.toThrow('the link broke');
  expect(readdirSync(root)).toHaveLength(1);
  await resume();
  expect(readdirSync(root)).toEqual(['bundle']);
  target = join(root, 'other');
  leave((await stagingPrefix(target)).replace(/-[0-9]+-$/, '-1-'));
  const bad = new AppError({ code: 'bundle/digest', message: 'bad', disposition: 'reject' });
  await expect(resume(bad)).rejects.toThrow('bad');
  expect(readdirSync(root)).toEqual(['bundle']);
});

it('a link with the name of a temporary file and its target are not touched', async () => {
  const elsewhere = join(root, 'elsewhere');
  mkdirSync(elsewhere);
  writeFileSync(join(elsewhere, 'x'), 'x');
  symlinkSync(elsewhere, `${(await stagingPrefix(target)).replace(/-[0-9]+-$/, '-1-')}AbCd12`);
  await build();
  expect(readdirSync(elsewhere)).toEqual(['x']);
});

it('a file that was being replaced is cleaned up too', async () => {
  const stale = `${(await stagingPrefix(target)).replace(/-[0-9]+-$/, '-1-')}staged`;
  writeFileSync(stale, 'half');
  await replaceOutput(target, (temporary) => writeNewFile(temporary, Buffer.from('new')));
  expect(readdirSync(root)).toEqual(['bundle']);
  expect(readFileSync(target, 'utf8')).toBe('new');
});

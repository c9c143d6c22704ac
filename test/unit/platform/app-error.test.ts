import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { reasonOf } from '../../../src/platform/app-error.ts';

/** What `run` throws. */
const thrownBy = (run: () => Promise<unknown>) =>
  run().then(
    () => undefined,
    (error: unknown) => error,
  );

test.each([
  ['a file that is not there', () => readFile('/nowhere'), "no such file or directory (ENOENT, open '/nowhere')"],
  ['a directory in place of a file', () => readFile('/'), 'it is a directory (EISDIR, read)'],
  [
    'a file in place of a folder',
    () => readFile(join(import.meta.filename, 'x')),
    /^not a directory \(ENOTDIR, open '.*x'\)$/,
  ],
  ['a folder that is there', () => mkdir('/proc'), "file already exists (EEXIST, mkdir '/proc')"],
  ['a medium that is broken', () => readFile('/proc/self/mem'), 'i/o error (EIO, read)'],
  ['a folder with a comma', () => readdir('/a, b'), "no such file or directory (ENOENT, scandir '/a, b')"],
])('the reason of %s begins with its words', async (_what, run, text) => {
  expect(reasonOf(await thrownBy(run))).toEqual(typeof text === 'string' ? text : expect.stringMatching(text));
});

test.each([
  ['an error of stickpin', new Error('ENOENT: no such file or directory'), 'ENOENT: no such file or directory'],
  ['a text', 'because', 'because'],
  [
    'a connection',
    Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:1'), { code: 'ECONNREFUSED' }),
    'connect ECONNREFUSED 127.0.0.1:1',
  ],
])('the reason of %s stays as it is', (_what, thrown, text) => {
  expect(reasonOf(thrown)).toBe(text);
});

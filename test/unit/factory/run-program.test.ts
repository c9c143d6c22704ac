import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { folderBytes } from '../../../src/factory/images/fetch-images.ts';
import { measureWhile } from '../../../src/factory/run-program.ts';
import { eventually } from '../../support/eventually.ts';
import { temporaryFolder } from '../../support/files/temporary-folder.ts';

let root: string;
beforeEach(() => {
  root = temporaryFolder();
});

describe('measureWhile', () => {
  it('reports the sum of all files as they grow, 0 before the folder exists', async () => {
    const told: number[] = [];
    const folder = join(root, 'incoming');
    const result = await measureWhile(
      () => folderBytes(folder),
      (bytes) => told.push(bytes),
      async () => {
        await eventually(() => expect(told).toContain(0), 8000);
        mkdirSync(folder);
        writeFileSync(join(folder, 'a'), 'abc');
        writeFileSync(join(folder, 'b'), 'de');
        await eventually(() => expect(told.at(-1)).toBe(5), 8000);
        return 'done';
      },
    );
    expect(result).toBe('done');
  });

  it('hands on what is thrown', async () => {
    const act = () => Promise.reject(new Error('broken'));
    await expect(
      measureWhile(
        () => folderBytes(root),
        () => undefined,
        act,
      ),
    ).rejects.toThrow('broken');
  });
});

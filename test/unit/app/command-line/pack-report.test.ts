import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { packReport } from '../../../../src/app/command-line/pack-report.ts';
import { temporaryFolder } from '../../../support/files/temporary-folder.ts';

const FILES = [{ file: 'doctor.txt', about: 'what doctor finds', text: 'all is well\n' }];
const { signal } = new AbortController();

describe('the file of a report', () => {
  let folder: string;
  beforeEach(() => {
    folder = temporaryFolder();
  });

  it('is made although an earlier run was broken off', async () => {
    const path = join(folder, 'r.tar.gz');
    writeFileSync(join(folder, '.r.tar.gz.part'), 'half');
    await packReport(path, FILES, signal);
    expect(
      execFileSync('tar', ['--extract', '--to-stdout', '--file', path, 'r/doctor.txt'], { encoding: 'utf8' }),
    ).toBe('all is well\n');
    expect(readdirSync(folder).sort()).toEqual(['.r.tar.gz.part', 'r.tar.gz']);
  });

  it('does not replace another one', async () => {
    const path = join(folder, 'r.tar.gz');
    writeFileSync(path, 'mine');
    await expect(packReport(path, FILES, signal)).rejects.toMatchObject({ code: 'EEXIST' });
    expect(readFileSync(path, 'utf8')).toBe('mine');
  });

  it('leaves nothing when it fails', async () => {
    const path = join(folder, 'r.tar.gz');
    const twice = [{ file: 'no/such/folder', about: '', text: '' }];
    await expect(packReport(path, twice, signal)).rejects.toThrow('ENOENT');
    expect(existsSync(path)).toBe(false);
    expect(readdirSync(folder)).toEqual([]);
  });
});

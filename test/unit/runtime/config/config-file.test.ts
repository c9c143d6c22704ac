import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readConfigFile } from '../../../../src/runtime/config/config-file.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const signal = AbortSignal.timeout(60_000);
const base = folderForEach();

describe('reading a configuration file of another program', () => {
  const read = () => readConfigFile(join(base, 'one.conf'), signal);

  it('gives the text', async () => {
    writeFileSync(join(base, 'one.conf'), 'a = 1\n');
    expect(await read()).toEqual({ kind: 'read', path: join(base, 'one.conf'), text: 'a = 1\n' });
  });

  it('gives nothing for a file that was removed since its directory was listed', async () => {
    expect(await read()).toBeUndefined();
  });

  it('tells a link to nothing from a file that is not there', async () => {
    symlinkSync('nowhere', join(base, 'one.conf'));
    expect(await read()).toMatchObject({ kind: 'unreadable', isDangling: true });
  });

  it('gives the reason for what is no file', async () => {
    mkdirSync(join(base, 'one.conf'));
    expect(await read()).toMatchObject({
      kind: 'unreadable',
      isDangling: false,
      reason: expect.stringContaining('EISDIR'),
    });
  });
});

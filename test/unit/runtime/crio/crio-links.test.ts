import { existsSync, mkdirSync, readFileSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { defaultSettings } from '../../../../src/domain/settings/settings.ts';
import { CRIO_PATHS, crioPathsOf } from '../../../../src/runtime/crio/crio-config.ts';
import { createCrioFiles } from '../../../../src/runtime/crio/crio-files.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const { signal } = new AbortController();
const PINS = [`quay.example.com/ocp/etcd@sha256:${'0'.repeat(64)}`];

const base = folderForEach();

describe('the link in a drop-in folder that crio.config_dir names', () => {
  const at = (path: string) => join(base, path);
  const settings = () => ({
    crio: {
      ...defaultSettings.crio,
      config_file: at('crio.conf'),
      config_dir: at('custom.d'),
      pins_file: at('run/pins.conf'),
      registries_conf: at('registries.conf'),
      registries_dir: at('registries.conf.d'),
      registries_d: at('registries.d'),
    },
    paths: { ...defaultSettings.paths, state_dir: at('state'), run_dir: at('run') },
  });
  const link = () => at('custom.d/99-stickpin.conf');
  const record = () => at('state/crio/links');
  let changes: string[];
  const files = () =>
    createCrioFiles(
      crioPathsOf(settings()),
      { authority: '127.0.0.1:5317', token: '0'.repeat(32) },
      async (_state, make) => {
        changes.push(existsSync(record()) ? readFileSync(record(), 'utf8') : '');
        await make();
      },
    );
  beforeEach(() => {
    changes = [];
  });
  const put = (path: string, make: (path: string) => void) => {
    mkdirSync(dirname(path), { recursive: true });
    make(path);
  };

  it('is recorded before it is made, so that it goes before its target', async () => {
    await files().writePins(PINS, signal);
    expect(readlinkSync(link())).toBe(at('run/pins.conf'));
    expect(changes.at(-1)).toBe(`${link()}\n`);
    await files().writeMirrors(['quay.example.com/ocp/etcd'], signal);
    expect(readFileSync(record(), 'utf8')).toBe(`${link()}\n${at('registries.conf.d/99-stickpin.conf')}\n`);
    const before = changes.length;
    await files().writePins(PINS, signal);
    expect(changes).toHaveLength(before);
  });

  it('is recorded when an older version made it', async () => {
    put(link(), (path) => symlinkSync(at('run/pins.conf'), path));
    await files().writePins(PINS, signal);
    expect(readFileSync(record(), 'utf8')).toBe(`${link()}\n`);
  });

  it('is made to lead to crio.pins_file when tmpfiles.d has made it', async () => {
    put(link(), (path) => symlinkSync(CRIO_PATHS.pinsFile, path));
    await files().writePins(PINS, signal);
    expect(readlinkSync(link())).toBe(at('run/pins.conf'));
    expect((await files().inspectPins(signal)).rendered).toEqual(PINS);
  });

  it.each([
    [
      'a link of somebody else',
      (path: string) => symlinkSync('/etc/hostname', path),
      /leads to \/etc\/hostname and not/,
    ],
    ['a file', (path: string) => writeFileSync(path, '# mine'), /is a file and should be a link/],
  ])('leaves %s alone, and the way out that it names works', async (_what, make, message) => {
    put(link(), make);
    await expect(files().writePins(PINS, signal)).rejects.toThrow(message);
    expect(existsSync(record())).toBe(false);
    rmSync(link());
    await files().writePins(PINS, signal);
    expect(readlinkSync(link())).toBe(at('run/pins.conf'));
  });

  it('says what a folder needs in which it can not be made', async () => {
    put(at('custom.d'), (path) => writeFileSync(path, ''));
    const crio = { ...settings().crio, config_file: at('none'), config_dir: at('custom.d/deep') };
    const paths = { ...crioPathsOf({ ...settings(), crio }), configDirectory: at('none.d') };
    const made = createCrioFiles(paths, { authority: '127.0.0.1:5317', token: '0'.repeat(32) }).writePins(PINS, signal);
    await expect(made).rejects.toThrow(`let stickpin.service write to ${at('custom.d/deep')} (ReadWritePaths=`);
  });
});

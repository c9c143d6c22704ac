import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { PathRecord } from '../../../../src/runtime/config/config-file.ts';
import { HostsDirectory } from '../../../../src/runtime/containerd/hosts-directory.ts';
import { FOLDERS_CLEARED_ANYWAY, MirrorFolders } from '../../../../src/runtime/containerd/mirror-folders.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const ADDRESS = { authority: '127.0.0.1:5577', token: '0123456789abcdef0123456789abcdef' };
const { signal } = new AbortController();

const base = folderForEach();
let folders: MirrorFolders;
const at = (name: string) => join(base, name);
const recorded = () => readFileSync(at('record'), 'utf8');
/** As after a start of the daemon. */
const start = (file = at('record')) => new MirrorFolders(new PathRecord(file, FOLDERS_CLEARED_ANYWAY), ADDRESS);

beforeEach(() => {
  folders = start();
});

describe('the folders of mirrors', () => {
  it('are recorded before anything is written to them', async () => {
    writeFileSync(at('file'), '');
    await expect(folders.apply([[at('file/certs.d')]], ['quay.io/a'], signal)).rejects.toThrow();
    expect(recorded()).toBe(`${at('file/certs.d')}\n`);
  });

  it('are recorded while they have mirrors', async () => {
    await folders.apply([[at('a')]], ['quay.io/a'], signal);
    expect(recorded()).toBe(`${at('a')}\n`);
    expect(await folders.rendered([[at('a')]], signal)).toEqual(['quay.io/a']);
    await folders.apply([[at('a')]], [], signal);
    expect(recorded()).toBe('');
  });

  it('get all mirrors that are possible when the configuration of one allows none', async () => {
    mkdirSync(at('shared'));
    mkdirSync(at('a'));
    symlinkSync(at('shared'), at('a/quay.io'));
    const places = [[at('a')], [at('b'), at('a')]] as const;
    await expect(folders.apply(places, ['quay.io/a', 'ghcr.io/b'], signal)).rejects.toThrow(at('a/quay.io'));
    expect([readdirSync(at('a')).sort(), readdirSync(at('b')).sort()]).toEqual([
      ['ghcr.io', 'quay.io'],
      ['ghcr.io', 'quay.io'],
    ]);
    expect(readdirSync(at('shared'))).toEqual([]);
    expect(recorded()).toBe(`${at('a')}\n${at('b')}\n`);
  });

  it('get no record where there never were mirrors', async () => {
    await folders.apply([[at('a')]], [], signal);
    expect(readdirSync(base)).toEqual([]);
  });

  it('get their own files back when config_path names another folder', async () => {
    mkdirSync(at('a/quay.io'), { recursive: true });
    writeFileSync(at('a/quay.io/hosts.toml'), 'server = "https://mine.example.com"\n');
    await folders.apply([[at('a')]], ['quay.io/a', 'ghcr.io/b'], signal);
    folders = start();
    expect(await folders.rendered([[at('b')]], signal)).toEqual(['stale ghcr.io/b', 'stale quay.io/a']);
    await folders.apply([[at('b')]], ['quay.io/a'], signal);
    expect(readdirSync(at('a'))).toEqual(['quay.io']);
    expect(readdirSync(at('a/quay.io'))).toEqual(['hosts.toml']);
    expect(readFileSync(at('a/quay.io/hosts.toml'), 'utf8')).toBe('server = "https://mine.example.com"\n');
    expect(await folders.rendered([[at('b')]], signal)).toEqual(['quay.io/a']);
    expect(recorded()).toBe(`${at('b')}\n`);
  });

  it('keep their mirrors when config_path names the same folder in another way', async () => {
    await folders.apply([[at('a')]], ['quay.io/a'], signal);
    symlinkSync(at('a'), at('link'));
    for (const same of [`${at('a')}/`, at('link')]) {
      expect(await folders.rendered([[same]], signal)).toEqual(['stale quay.io/a']);
      await folders.apply([[same]], ['quay.io/a'], signal);
      expect(await folders.rendered([[same]], signal)).toEqual(['quay.io/a']);
      expect(readdirSync(at('a'))).toEqual(['quay.io']);
      expect(recorded()).toBe(`${same}\n`);
    }
  });

  it('get them back when containerd reads no mirrors any more', async () => {
    await folders.apply([[at('a')]], ['quay.io/a'], signal);
    expect(await folders.rendered([], signal)).toEqual(['stale quay.io/a']);
    await folders.apply([], [], signal);
    expect(readdirSync(at('a'))).toEqual([]);
    expect(await folders.rendered([], signal)).toEqual([]);
  });

  it('stay recorded when they can not be cleared, and hold nothing up', async () => {
    writeFileSync(at('a'), 'no folder');
    writeFileSync(at('record'), `${at('a')}\n`);
    expect(await folders.rendered([[at('b')]], signal)).toEqual([]);
    await folders.apply([[at('b')]], ['quay.io/a'], signal);
    expect(await folders.rendered([[at('b')]], signal)).toEqual(['quay.io/a']);
    expect(recorded()).toBe(`${at('a')}\n${at('b')}\n`);
  });

  it('have no current mirror that is not recorded, as after an upgrade of stickpin', async () => {
    await new HostsDirectory([at('a')], ADDRESS).apply(['quay.io/a'], signal);
    expect(await folders.rendered([[at('a')]], signal)).toEqual(['stale quay.io/a']);
    await folders.apply([[at('a')]], ['quay.io/a'], signal);
    expect(await folders.rendered([[at('a')]], signal)).toEqual(['quay.io/a']);
  });

  it('have a mirror only where all of them have it', async () => {
    const both = [[at('a')], [at('b'), at('a')]] as const;
    await folders.apply(both, ['quay.io/a', 'ghcr.io/b'], signal);
    expect(await folders.rendered(both, signal)).toEqual(['ghcr.io/b', 'quay.io/a']);
    rmSync(at('b/quay.io'), { recursive: true });
    expect(await folders.rendered(both, signal)).toEqual(['ghcr.io/b', 'stale quay.io/a']);
    await folders.apply(both, [], signal);
    expect([readdirSync(at('a')), readdirSync(at('b'))]).toEqual([[], []]);
  });

  it('are not written to when they can not be recorded, unless they are usual', async () => {
    writeFileSync(at('file'), '');
    folders = start(at('file/record'));
    await expect(folders.apply([[at('a')]], ['quay.io/a'], signal)).rejects.toMatchObject({ code: 'runtime/write' });
    expect(readdirSync(base)).toEqual(['file']);
    const record = new PathRecord(at('file/record'), FOLDERS_CLEARED_ANYWAY);
    await record.write(FOLDERS_CLEARED_ANYWAY);
    expect(await record.read()).toEqual(FOLDERS_CLEARED_ANYWAY);
  });

  it('are made for a list that is taken for one folder, with what the user configured, and go with it', async () => {
    const list = at('certs.d:/etc/docker/certs.d');
    const places = [[at('certs.d')], [list, at('certs.d')]] as const;
    mkdirSync(at('certs.d/quay.io'), { recursive: true });
    writeFileSync(at('certs.d/quay.io/hosts.toml'), 'ca = "ca.pem"\n[host."https://mine.example.com"]\n');
    await folders.apply(places, ['quay.io/a', 'ghcr.io/b'], signal);
    const text = readFileSync(join(list, 'quay.io/hosts.toml'), 'utf8');
    expect(text).toContain(`ca = "${at('certs.d/quay.io/ca.pem')}"`);
    expect(text).toContain('[host."https://mine.example.com"]');
    expect(await folders.rendered(places, signal)).toEqual(['ghcr.io/b', 'quay.io/a']);
    writeFileSync(at('certs.d/quay.io/hosts.toml.stickpin-saved'), '[host."https://other.example.com"]\n');
    expect(await folders.rendered(places, signal)).toEqual(['ghcr.io/b', 'stale quay.io/a']);
    await folders.apply(places, ['quay.io/a'], signal);
    expect(readFileSync(join(list, 'quay.io/hosts.toml'), 'utf8')).toContain('https://other.example.com');
    await folders.apply(places, [], signal);
    expect(readdirSync(base).sort()).toEqual(['certs.d', 'record']);
    expect(readdirSync(at('certs.d/quay.io'))).toEqual(['hosts.toml']);
  });

  it('keep what somebody else has in the folder of a list', async () => {
    const list = at('certs.d:/etc/docker/certs.d');
    mkdirSync(join(list, 'quay.io'), { recursive: true });
    writeFileSync(join(list, 'quay.io/hosts.toml'), 'server = "https://mine.example.com"\n');
    await folders.apply([[at('certs.d')], [list, at('certs.d')]], ['quay.io/a', 'ghcr.io/b'], signal);
    // config_path names one folder now.
    await folders.apply([[at('certs.d')]], ['quay.io/a'], signal);
    expect(readdirSync(list)).toEqual(['quay.io']);
    expect(readFileSync(join(list, 'quay.io/hosts.toml'), 'utf8')).toBe('server = "https://mine.example.com"\n');
  });
});

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { sandboxImage } from '../../../../src/runtime/containerd/containerd-config.ts';
import { findRegistryConfigPath } from '../../../../src/runtime/containerd/mirror-folders.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const { signal } = new AbortController();
const V3 = '[plugins."io.containerd.cri.v1.images".registry]\n';
const V2 = '[plugins."io.containerd.grpc.v1.cri".registry]\n';
const DEFAULT = {
  kind: 'set',
  directories: ['/etc/containerd/certs.d', '/etc/docker/certs.d'],
  literalDirectory: '/etc/containerd/certs.d:/etc/docker/certs.d',
};

const etc = folderForEach();

const find = (info: Readonly<Record<string, string>>, name = 'containerd 1.7.24') =>
  findRegistryConfigPath({ info, name, configFile: join(etc, 'config.toml') }, signal);
const put = (name: string, text: string) => {
  mkdirSync(join(etc, name, '..'), { recursive: true });
  writeFileSync(join(etc, name), text);
};

describe('sandboxImage', () => {
  const image = (info: Readonly<Record<string, string>> = {}) => sandboxImage(info, join(etc, 'config.toml'), signal);

  it('is what containerd reports, and else what its configuration says', async () => {
    expect(await image()).toBeUndefined();
    put(
      'config.toml',
      'imports = ["conf.d/*.toml"]\n[plugins."io.containerd.grpc.v1.cri"]\nsandbox_image = "a/pause:1"\n',
    );
    expect(await image()).toBe('a/pause:1');
    put('conf.d/own.toml', '[plugins."io.containerd.cri.v1.images".pinned_images]\nsandbox = "b/pause:2"\n');
    expect(await image()).toBe('b/pause:2');
    expect(await image({ config: JSON.stringify({ sandboxImage: 'c/pause:3' }) })).toBe('c/pause:3');
    expect(await image({ config: 'no JSON' })).toBe('b/pause:2');
  });
});

describe('registryConfigPath', () => {
  it.each([
    [
      { registry: { configPath: '/etc/containerd/certs.d' } },
      { kind: 'set', directories: ['/etc/containerd/certs.d'] },
    ],
    [{ registry: { configPath: '/a:/b' } }, { kind: 'set', directories: ['/a', '/b'] }],
    [{ registry: { configPath: '' } }, { kind: 'unset' }],
    [{ enableSelinux: false }, { kind: 'unknown' }],
  ])('reads %j', async (config, expected) => {
    expect(await find({ config: JSON.stringify(config) })).toEqual(expected);
  });

  it('reports everything else as unknown', async () => {
    expect(await find({})).toEqual({ kind: 'unknown' });
    expect(await find({ config: 'null' })).toEqual({ kind: 'unknown' });
  });

  it('uses the value that containerd reports, not its files', async () => {
    put('config.toml', `${V2}config_path = "/file"`);
    const info = { config: JSON.stringify({ registry: { configPath: '/reported' } }) };
    expect(await find(info)).toEqual({ kind: 'set', directories: ['/reported'] });
  });
});

describe('the files of containerd 2', () => {
  const two = (minor = 1) => find({ config: '{"enableSelinux":false}' }, `containerd v2.${minor}.9`);

  it.each([
    ['of version 3', `version = 3\n${V3}config_path = "/a"`],
    ['of version 2', `version = 2\n${V2}config_path = "/a"`],
    ['of version 3 beside a table of version 2', `version = 3\n${V2}config_path = "/b"\n${V3}config_path = "/a"`],
  ])('are read %s', async (_which, text) => {
    put('config.toml', text);
    expect(await two()).toEqual({ kind: 'set', directories: ['/a'] });
  });

  it('import others, of which the last one in the order of names counts', async () => {
    put('config.toml', `version = 3\nimports = ["conf.d/*.toml", "/nowhere/*.toml"]\n${V3}config_path = "/a"`);
    put('conf.d/10-a.toml', `version = 3\n${V3}config_path = "/b"`);
    put('conf.d/20-b.toml', `version = 3\nimports = ["${join(etc, 'more.toml')}", "../config.toml"]`);
    put('conf.d/30-c.txt', `${V3}config_path = "/no"`);
    expect(await two()).toEqual({ kind: 'set', directories: ['/b'] });
    put('more.toml', `version = 3\n${V3}config_path = "/c"`);
    expect(await two()).toEqual({ kind: 'set', directories: ['/c'] });
  });

  it('leave the default of 2.2 where they set nothing, and no mirrors before that', async () => {
    expect([await two(1), await two(2)]).toEqual([{ kind: 'unknown' }, DEFAULT]);
    put('config.toml', 'version = 3\n');
    expect([await two(1), await two(2)]).toEqual([{ kind: 'unset' }, DEFAULT]);
    put('config.toml', `version = 2\n${V2}[plugins."io.containerd.grpc.v1.cri".registry.mirrors."a"]\nendpoint = []`);
    expect(await two(2)).toEqual({ kind: 'unset' });
  });

  it('are unknown when one is damaged', async () => {
    put('config.toml', 'imports = ["broken.toml"]');
    put('broken.toml', '[');
    expect(await two()).toEqual({ kind: 'unknown' });
  });

  it('count a later value that is empty, as `containerd config dump` of 2.1.9 shows', async () => {
    put('config.toml', `version = 3\nimports = ["conf.d/*.toml"]\n${V3}config_path = "/a"`);
    put('conf.d/10-a.toml', `version = 3\n${V3}config_path = ""`);
    expect([await two(1), await two(2)]).toEqual([{ kind: 'unset' }, DEFAULT]);
  });
});

describe('a list (docs/runtime-facts.md, fact 36)', () => {
  it.each([
    ['containerd v2.1.9', '/a:/b', '/a:/b'],
    ['containerd v2.10.0', '/a/:/b//c/', '/a/:/b/c'],
    ['containerd v2.1.9', '/a', undefined],
    ['containerd v2.1.9', '/a:', '/a:'],
    ['containerd v2.1.9', ':/a', undefined],
    ['containerd v2.0.5', '/a:/b', undefined],
    ['containerd', '/a:/b', undefined],
  ])('is for %s with %s one directory too: %s', async (name, configPath, expected) => {
    put('config.toml', `version = 3\n${V3}config_path = "${configPath}"`);
    const { literalDirectory = undefined } = { ...(await find({}, name)) } as { literalDirectory?: string };
    expect(literalDirectory).toBe(expected);
  });

  it.each(['use_local_image_pull', 'discard_unpacked_layers'])('is read as one with %s', async (setting) => {
    const table = `version = 3\n[plugins."io.containerd.cri.v1.images"]\n${setting}`;
    put('config.toml', `imports = ["more.toml"]\n${table} = true\n${V3}config_path = "/a:/b"`);
    expect(await find({}, 'containerd v2.1.9')).toEqual({ kind: 'set', directories: ['/a', '/b'] });
    put('more.toml', `${table} = false`);
    expect(await find({}, 'containerd v2.1.9')).toMatchObject({ literalDirectory: '/a:/b' });
  });
});

import {
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { parse } from 'toml';
import { beforeEach, describe, expect, it } from 'vitest';
import { HostsDirectory } from '../../../../src/runtime/containerd/hosts-directory.ts';
import { folderForEach, temporaryFolder } from '../../../support/files/temporary-folder.ts';

const ADDRESS = { authority: '127.0.0.1:5577', token: '0123456789abcdef0123456789abcdef' };
const OURS = 'http://127.0.0.1:5577/v2/0123456789abcdef0123456789abcdef/quay.io';
const USERS = 'server = "https://quay.example.com"   # kept\r\n[host."https://m.example.com"]\n';

const certs = folderForEach();
let hosts: HostsDirectory;

beforeEach(() => {
  hosts = new HostsDirectory([certs], ADDRESS);
});

function put(name: string, text: string): string {
  const file = join(certs, name);
  mkdirSync(join(file, '..'), { recursive: true });
  writeFileSync(file, text, { mode: 0o640 });
  return file;
}

function hostsIn(name: string): string[] {
  return Object.keys(parse(readFileSync(join(certs, name, 'hosts.toml'), 'utf8')).host);
}

const { signal } = new AbortController();

describe('the hosts directory', () => {
  it('changes nothing after an abort', async () => {
    await hosts.apply(['quay.io/a'], signal);
    const stopped = AbortSignal.abort(new Error('stop'));
    await expect(hosts.apply(['docker.io/library/b'], stopped)).rejects.toThrow('stop');
    await expect(hosts.rendered(stopped)).rejects.toThrow('stop');
    expect(await hosts.rendered(signal)).toEqual(['quay.io/a']);
  });

  it('makes and removes a directory for a registry that has none', async () => {
    await hosts.apply(['quay.io/coreos/etcd', 'quay.io/a', 'docker.io/library/b'], signal);
    expect(hostsIn('quay.io')).toEqual([OURS]);
    expect(await hosts.rendered(signal)).toEqual(['docker.io/library/b', 'quay.io/a', 'quay.io/coreos/etcd']);
    await hosts.apply(['docker.io/library/b'], signal);
    expect(readdirSync(certs)).toEqual(['docker.io']);
    await hosts.apply([], signal);
    expect(readdirSync(certs)).toEqual([]);
    expect(await hosts.rendered(signal)).toEqual([]);
  });

  it('does nothing where there is no directory at all', async () => {
    const none = new HostsDirectory([join(certs, 'none')], ADDRESS);
    await none.apply([], signal);
    expect(await none.rendered(signal)).toEqual([]);
    expect(existsSync(join(certs, 'none'))).toBe(false);
  });

  it('keeps the hosts of a user’s file after ours, and restores the same file', async () => {
    const file = put('quay.io/hosts.toml', USERS);
    const before = statSync(file);
    await hosts.apply(['quay.io/a'], signal);
    expect(hostsIn('quay.io')).toEqual([OURS, 'https://m.example.com']);
    await hosts.apply(['quay.io/b'], signal);
    expect(hostsIn('quay.io')).toEqual([OURS, 'https://m.example.com']);
    await hosts.apply([], signal);
    expect(readFileSync(file, 'utf8')).toBe(USERS);
    const { ino, mode, mtimeMs } = statSync(file);
    expect({ ino, mode, mtimeMs }).toEqual({ ino: before.ino, mode: before.mode, mtimeMs: before.mtimeMs });
    expect(readdirSync(join(certs, 'quay.io'))).toEqual(['hosts.toml']);
  });

  it('keeps a link a link', async () => {
    const target = put('elsewhere.toml', USERS);
    mkdirSync(join(certs, 'quay.io'));
    symlinkSync(target, join(certs, 'quay.io/hosts.toml'));
    await hosts.apply(['quay.io/a'], signal);
    expect(readFileSync(target, 'utf8')).toBe(USERS);
    await hosts.apply([], signal);
    expect(lstatSync(join(certs, 'quay.io/hosts.toml')).isSymbolicLink()).toBe(true);
  });

  it('continues after a crash between the two renames', async () => {
    const file = put('quay.io/hosts.toml', USERS);
    linkSync(file, join(certs, 'quay.io/hosts.toml.stickpin-saved'));
    await hosts.apply([], signal);
    expect(readdirSync(join(certs, 'quay.io'))).toEqual(['hosts.toml']);
    linkSync(file, join(certs, 'quay.io/hosts.toml.stickpin-saved'));
    await hosts.apply(['quay.io/a'], signal);
    expect(hostsIn('quay.io')).toEqual([OURS, 'https://m.example.com']);
    await hosts.apply([], signal);
    expect(readFileSync(file, 'utf8')).toBe(USERS);
  });

  it('accepts a file that replaced ours', async () => {
    put('quay.io/hosts.toml', USERS);
    await hosts.apply(['quay.io/a'], signal);
    const file = put('quay.io/hosts.toml', 'server = "https://newer.example.com"\n');
    await hosts.apply([], signal);
    expect(readFileSync(file, 'utf8')).toBe('server = "https://newer.example.com"\n');
    expect(readdirSync(join(certs, 'quay.io'))).toEqual(['hosts.toml']);
  });

  it('includes the hosts of _default, which our file would hide', async () => {
    put('_default/hosts.toml', 'ca = "ca.pem"\n[host."https://m.example.com"]\n');
    await hosts.apply(['quay.io/a'], signal);
    expect(hostsIn('quay.io')).toEqual([OURS, 'https://m.example.com']);
    expect(parse(readFileSync(join(certs, 'quay.io/hosts.toml'), 'utf8')).ca).toBe(join(certs, '_default/ca.pem'));
  });

  it('includes certificates of the directory, and leaves them there', async () => {
    put('quay.io/ca.crt', '');
    put('quay.io/client.cert', '');
    put('quay.io/client.key', '');
    await hosts.apply(['quay.io/a'], signal);
    const at = (name: string) => join(certs, 'quay.io', name);
    expect(parse(readFileSync(at('hosts.toml'), 'utf8'))).toMatchObject({
      ca: [at('ca.crt')],
      client: [[at('client.cert'), at('client.key')]],
    });
    await hosts.apply([], signal);
    expect(readdirSync(join(certs, 'quay.io'))).toEqual(['ca.crt', 'client.cert', 'client.key']);
  });

  it('takes in what somebody adds to a directory of ours, in place of _default, and leaves it there', async () => {
    put('_default/hosts.toml', '[host."https://m.example.com"]\n');
    await hosts.apply(['quay.io/a'], signal);
    const ca = put('quay.io/ca.crt', 'ca');
    expect(await hosts.rendered(signal)).toEqual(['stale quay.io/a']);
    await hosts.apply(['quay.io/a'], signal);
    expect(await hosts.rendered(signal)).toEqual(['quay.io/a']);
    expect(parse(readFileSync(join(certs, 'quay.io/hosts.toml'), 'utf8')).ca).toEqual([ca]);
    expect(hostsIn('quay.io')).toEqual([OURS]);
    await hosts.apply([], signal);
    expect(readdirSync(join(certs, 'quay.io'))).toEqual(['ca.crt']);
  });

  it('removes a directory of ours in which a crash left a file half-written', async () => {
    put('_default/hosts.toml', '[host."https://m.example.com"]\n');
    await hosts.apply(['quay.io/a'], signal);
    put('quay.io/.hosts.toml.stickpin-new', '');
    expect(await hosts.rendered(signal)).toEqual(['quay.io/a']);
    await hosts.apply([], signal);
    expect(readdirSync(certs)).toEqual(['_default']);
  });

  it('writes into the directory that containerd reads first', async () => {
    put('localhost_5000_/hosts.toml', '');
    await hosts.apply(['localhost:5000/a'], signal);
    expect(readdirSync(certs)).toEqual(['localhost_5000_']);
    expect(await hosts.rendered(signal)).toEqual(['localhost:5000/a']);
  });

  it('names a broken file of the user and leaves it alone', async () => {
    const file = put('quay.io/hosts.toml', 'server = \n');
    await expect(hosts.apply(['quay.io/a'], signal)).rejects.toMatchObject({
      code: 'runtime/config',
      disposition: 'wait',
      message: expect.stringContaining(`${file} is broken`),
    });
    expect(readFileSync(file, 'utf8')).toBe('server = \n');
    expect(readdirSync(join(certs, 'quay.io'))).toEqual(['hosts.toml']);
  });

  it('includes the hosts of a _default and of a further directory behind links', async () => {
    const shared = temporaryFolder();
    mkdirSync(join(shared, 'docker/quay.io'), { recursive: true });
    writeFileSync(join(shared, 'docker/quay.io/ca.crt'), '');
    mkdirSync(join(shared, 'other'));
    symlinkSync(join(shared, 'docker/quay.io'), join(shared, 'other/quay.io'));
    const both = new HostsDirectory([certs, join(shared, 'other')], ADDRESS);
    await both.apply(['quay.io/a'], signal);
    const ca = join(shared, 'other/quay.io/ca.crt');
    expect(parse(readFileSync(join(certs, 'quay.io/hosts.toml'), 'utf8')).ca).toEqual([ca]);
    writeFileSync(join(shared, 'hosts.toml'), '[host."https://m.example.com"]\n');
    symlinkSync(shared, join(certs, '_default'));
    expect(await both.rendered(signal)).toEqual(['stale quay.io/a']);
    await both.apply(['quay.io/a'], signal);
    expect(hostsIn('quay.io')).toEqual([OURS, 'https://m.example.com']);
  });

  it.each([
    ['a link to a folder', () => symlinkSync(put('shared/ca.crt', '').replace('/ca.crt', ''), join(certs, 'quay.io'))],
    ['a link to nowhere', () => symlinkSync('../nowhere', join(certs, 'quay.io'))],
    ['a file', () => put('quay.io', '')],
  ])('names %s in the place of a folder, and writes the mirrors of other registries', async (_what, make) => {
    make();
    await expect(hosts.apply(['quay.io/a', 'ghcr.io/b'], signal)).rejects.toMatchObject({
      code: 'runtime/config',
      disposition: 'wait',
      message: expect.stringContaining(join(certs, 'quay.io')),
    });
    expect(await hosts.rendered(signal)).toEqual(['ghcr.io/b']);
    await hosts.apply([], signal);
    expect(existsSync(join(certs, 'shared/hosts.toml'))).toBe(false);
  });

  it('does not take a _default that it can’t read for none', async () => {
    symlinkSync('../nowhere', join(certs, '_default'));
    await expect(hosts.apply(['quay.io/a'], signal)).rejects.toThrow(/_default is a link to \.\.\/nowhere/);
    expect(readdirSync(certs)).toEqual(['_default']);
  });

  it('points out mirrors to the registry of an earlier run', async () => {
    await new HostsDirectory([certs], { ...ADDRESS, token: 'f'.repeat(32) }).apply(['quay.io/a'], signal);
    expect(await hosts.rendered(signal)).toEqual(['stale quay.io/a']);
    await hosts.apply(['quay.io/a'], signal);
    expect(await hosts.rendered(signal)).toEqual(['quay.io/a']);
  });

  it('includes the hosts in a further directory of config_path, which ours would hide', async () => {
    const other = temporaryFolder();
    const both = new HostsDirectory([certs, other], ADDRESS);
    mkdirSync(join(other, 'quay.io'));
    writeFileSync(join(other, 'quay.io/ca.crt'), '');
    mkdirSync(join(other, '_default'));
    writeFileSync(join(other, '_default/hosts.toml'), '[host."https://default.example.com"]\n');
    await both.apply(['quay.io/a', 'ghcr.io/b'], signal);
    const text = (registry: string) => readFileSync(join(certs, registry, 'hosts.toml'), 'utf8');
    expect(text('quay.io')).toContain(`ca = ["${join(other, 'quay.io/ca.crt')}"]`);
    expect(text('ghcr.io')).toContain('[host."https://default.example.com"]');
    expect(readdirSync(other).sort()).toEqual(['_default', 'quay.io']);
    await both.apply([], signal);
    expect(readdirSync(certs)).toEqual([]);
  });

  it('does not take what stickpin wrote in a further directory for the configuration of the user', async () => {
    const other = temporaryFolder();
    const before = new HostsDirectory([other], { ...ADDRESS, token: 'f'.repeat(32) });
    mkdirSync(join(other, 'quay.io'));
    writeFileSync(join(other, 'quay.io/hosts.toml'), `ca = "ca.pem"\n${USERS}`);
    mkdirSync(join(other, '_default'));
    writeFileSync(join(other, '_default/hosts.toml'), '[host."https://default.example.com"]\n');
    await before.apply(['quay.io/a', 'ghcr.io/b'], signal);
    await new HostsDirectory([certs, other], ADDRESS).apply(['quay.io/a', 'ghcr.io/b'], signal);
    expect(hostsIn('quay.io')).toEqual([OURS, 'https://m.example.com']);
    expect(parse(readFileSync(join(certs, 'quay.io/hosts.toml'), 'utf8')).ca).toBe(join(other, 'quay.io/ca.pem'));
    expect(hostsIn('ghcr.io')).toEqual([OURS.replace('quay.io', 'ghcr.io'), 'https://default.example.com']);
    writeFileSync(join(other, 'ghcr.io/ca.crt'), '');
    await new HostsDirectory([certs, other], ADDRESS).apply(['ghcr.io/b'], signal);
    expect(parse(readFileSync(join(certs, 'ghcr.io/hosts.toml'), 'utf8')).ca).toEqual([join(other, 'ghcr.io/ca.crt')]);
  });
});

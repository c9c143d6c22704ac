import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'toml';
import { beforeEach, describe, expect, it } from 'vitest';
import { HostsDirectory } from '../../../../src/runtime/containerd/hosts-directory.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { startK3s } from '../../../support/k3s/certs.ts';

const ADDRESS = { authority: '127.0.0.1:5577', token: '0123456789abcdef0123456789abcdef' };
const OURS = 'http://127.0.0.1:5577/v2/0123456789abcdef0123456789abcdef/quay.io';
const THEIRS = 'https://mirror.example.com/v2';
/** As k3s' template writes a mirror with a rewrite and a certificate. */
const QUAY = `server = "https://quay.io/v2"
capabilities = ["pull", "resolve", "push"]

[host]
[host."${THEIRS}"]
  capabilities = ["pull", "resolve"]
  ca = ["/etc/rancher/ca.crt"]
  [host."${THEIRS}".rewrite]
    "^(.*)$" = "quay/$1"
`;
const { signal } = new AbortController();

const certs = folderForEach();
let hosts: HostsDirectory;
beforeEach(() => {
  hosts = new HostsDirectory([certs], ADDRESS);
});

const textOf = (registry: string) => readFileSync(join(certs, registry, 'hosts.toml'), 'utf8');
const hostsOf = (registry: string) => Object.keys(parse(textOf(registry)).host);

describe('mirrors in the certs.d of k3s (docs/runtime-facts.md, fact 39)', () => {
  it('are seen as lost after its start where registries.yaml has the registry, and come before its own again', async () => {
    startK3s(certs, { 'quay.io': QUAY });
    const original = textOf('quay.io');
    await hosts.apply(['quay.io/a', 'ghcr.io/b'], signal);
    expect(hostsOf('quay.io')).toEqual([OURS, THEIRS]);
    startK3s(certs, { 'quay.io': QUAY });
    expect(textOf('quay.io')).toBe(original);
    expect(await hosts.rendered(signal)).toEqual(['ghcr.io/b']);
    await hosts.apply(['quay.io/a', 'ghcr.io/b'], signal);
    expect(hostsOf('quay.io')).toEqual([OURS, THEIRS]);
    expect(parse(textOf('quay.io')).host[THEIRS]).toMatchObject({ rewrite: { '^(.*)$': 'quay/$1' } });
    await hosts.apply([], signal);
    expect(textOf('quay.io')).toBe(original);
    expect(readdirSync(certs)).toEqual(['quay.io']);
  });

  it('stay over its start where registries.yaml does not have the registry', async () => {
    await hosts.apply(['quay.io/a'], signal);
    startK3s(certs, { 'docker.io': QUAY });
    expect(await hosts.rendered(signal)).toEqual(['quay.io/a']);
    await hosts.apply([], signal);
    expect(readdirSync(certs)).toEqual(['docker.io']);
  });

  it('include the mirror of all registries, and use the folder of k3s for a registry with a port', async () => {
    startK3s(certs, { _default: `[host."${THEIRS}"]\n`, localhost_5000_: `[host."http://localhost:5001/v2"]\n` });
    await hosts.apply(['quay.io/a', 'localhost:5000/b'], signal);
    expect(hostsOf('quay.io')).toEqual([OURS, THEIRS]);
    expect(hostsOf('localhost_5000_')).toHaveLength(2);
    expect(readdirSync(certs).sort()).toEqual(['_default', 'localhost_5000_', 'quay.io']);
  });
});

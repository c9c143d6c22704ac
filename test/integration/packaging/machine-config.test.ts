import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { loadSettings } from '../../../src/config/load-settings.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';
import { runCommand } from '../../support/run-command.ts';

const IMAGE = `registry.example.com/edge/host-with-stickpin@sha256:${'5f'.repeat(32)}`;
const SETTINGS = '[update]\nstrategy = "manual" # ä\n';
const directory = folderForAll();
const at = (name: string) => join(directory, name);

const print = (...args: readonly string[]) =>
  spawnSync('bash', ['packaging/image/machine-config', ...args], { encoding: 'utf8' });

interface IgnitionFile {
  readonly path: string;
  readonly mode: number;
  readonly overwrite: boolean;
  readonly contents: { readonly source: string };
}

describe('the MachineConfig', () => {
  let key: Buffer;
  beforeAll(async () => {
    expect((await runCommand(['keygen', '--out', at('factory-2026')])).exitCode).toBe(0);
    key = readFileSync(at('factory-2026.pub'));
    writeFileSync(at('stickpin.toml'), SETTINGS);
    writeFileSync(at('apps.toml'), 'threshold = 1\n');
  });

  it('boots from the image, and has the keys and the settings byte by byte', async () => {
    const keys = ['--key', at('factory-2026.pub'), '--key', at('apps.toml')];
    const { status, stdout } = print('--image', IMAGE, ...keys, '--settings', at('stickpin.toml'), '--role', 'edge');
    expect(status).toBe(0);
    const { spec, ...head } = parse(stdout, { strict: true }) as {
      spec: { osImageURL: string; config: { ignition: object; storage: { files: readonly IgnitionFile[] } } };
    };
    expect(head).toEqual({
      apiVersion: 'machineconfiguration.openshift.io/v1',
      kind: 'MachineConfig',
      metadata: { name: '99-edge-stickpin', labels: { 'machineconfiguration.openshift.io/role': 'edge' } },
    });
    expect(Object.keys(spec)).toEqual(['osImageURL', 'config']);
    expect(spec.osImageURL).toBe(IMAGE);
    const { ignition, storage, ...more } = spec.config;
    expect([ignition, more]).toEqual([{ version: '3.2.0' }, {}]);
    const files = storage.files.map(({ contents: { source }, ...file }) => {
      const [, base64 = ''] = /^data:text\/plain;charset=utf-8;base64,([A-Za-z0-9+/=]+)$/.exec(source) ?? [];
      return { ...file, bytes: Buffer.from(base64, 'base64') };
    });
    const file = (path: string, bytes: Buffer) => ({ path, mode: 0o644, overwrite: true, bytes });
    expect(files).toEqual([
      file('/etc/stickpin/keys.d/factory-2026.pub', key),
      file('/etc/stickpin/keys.d/apps.toml', Buffer.from('threshold = 1\n')),
      file('/etc/stickpin/stickpin.toml', Buffer.from(SETTINGS)),
    ]);
    writeFileSync(at('as-on-node.toml'), files.at(-1)?.bytes ?? '');
    const fragments = [{ file: at('as-on-node.toml'), required: true }];
    expect((await loadSettings({ fragments }, new AbortController().signal)).update.strategy).toBe('manual');
  });

  it.each([
    ['an image by its tag', ['--image', 'registry.example.com/host:4', '--key', 'factory-2026.pub']],
    [
      'an image that would be more YAML',
      ['--image', `x\nkind: y@sha256:${'5f'.repeat(32)}`, '--key', 'factory-2026.pub'],
    ],
    ['no key', ['--image', IMAGE]],
    ['a key that is not there', ['--image', IMAGE, '--key', 'other.pub']],
    ['what is no key', ['--image', IMAGE, '--key', 'stickpin.txt']],
    ['a role that is no name', ['--image', IMAGE, '--key', 'factory-2026.pub', '--role', 'a: b']],
    ['a flag without its value', ['--image']],
    ['a flag that does not exist', ['--images', IMAGE]],
  ])('refuses %s, and prints nothing', (_what, args) => {
    const { status, stdout, stderr } = print(...args.map((arg) => (/\.(?:pub|txt)$/.test(arg) ? at(arg) : arg)));
    expect([status, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(/^machine-config: \S.*\n$/);
  });
});

import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { folderForEach } from '../../support/files/temporary-folder.ts';

const script = new URL('../../../systemd/microshift-manifests', import.meta.url).pathname;

describe('the manifests of a release for MicroShift', () => {
  const root = folderForEach();
  const target = () => join(root, 'manifests.d/stickpin-shop');

  beforeEach(() => {
    mkdirSync(join(root, 'bin'));
    const double = `#!/bin/sh
echo "$*" >>${root}/calls
case $1 in is-active) cat ${root}/state && exit 3 ;; esac
[ ! -s ${root}/failures ] || { truncate -s -1 ${root}/failures; exit 1; }
`;
    writeFileSync(join(root, 'bin/systemctl'), double, { mode: 0o755 });
  });

  /** Starts of MicroShift fail that often. */
  const failStarts = (times: number, state = 'activating') => {
    writeFileSync(join(root, 'failures'), 'x'.repeat(times));
    writeFileSync(join(root, 'state'), state);
  };

  /** @returns the files that MicroShift finds afterwards */
  function run(files: Readonly<Record<string, string>>, ends = 0): Readonly<Record<string, string>> | undefined {
    const attachments = join(root, 'attachments');
    rmSync(attachments, { recursive: true, force: true });
    mkdirSync(attachments);
    for (const [name, text] of Object.entries(files)) writeFileSync(join(attachments, name), text);
    const env = {
      PATH: `${join(root, 'bin')}:${process.env.PATH}`,
      MICROSHIFT: root,
      STICKPIN_ATTACHMENTS: attachments,
      STICKPIN_NAME: 'shop',
      STICKPIN_BUNDLE: 'shop@1.0.0',
    };
    const { status, stderr } = spawnSync('/bin/sh', [script], { env, encoding: 'utf8' });
    expect([status, stderr]).toEqual([ends, '']);
    if (!existsSync(target())) return undefined;
    return Object.fromEntries(readdirSync(target()).map((name) => [name, readFileSync(join(target(), name), 'utf8')]));
  }
  const calls = () => readFileSync(join(root, 'calls'), 'utf8').trim().split('\n');

  it('are put there with a kustomization that names them, and MicroShift is restarted', () => {
    expect(run({ 'app.yaml': 'a', 'more.yml': 'b', 'firmware.bin': 'x' })).toEqual({
      'app.yaml': 'a',
      'more.yml': 'b',
      'kustomization.yaml': 'resources:\n- app.yaml\n- more.yml\n',
    });
    expect(calls()).toEqual(['try-restart microshift.service']);
  });

  it('count as given where the second start of MicroShift succeeds, and fail with it', () => {
    failStarts(1);
    run({ 'app.yaml': 'a' });
    expect(calls()).toEqual([
      'try-restart microshift.service',
      'is-active microshift.service',
      'start microshift.service',
    ]);
    failStarts(2);
    run({ 'app.yaml': 'a' }, 1);
  });

  it('are given to a MicroShift that is not there, or was stopped meanwhile, without a start', () => {
    failStarts(1, 'inactive');
    run({ 'app.yaml': 'a' });
    expect(calls()).not.toContain('start microshift.service');
  });

  it.each(['kustomization.yaml', 'kustomization.yml'])('keep a %s of their own', (name) => {
    const own = { 'app.yaml': 'a', [name]: 'resources: [app.yaml]\nnamespace: shop\n' };
    expect(run(own)).toEqual(own);
  });

  it('are replaced as a whole by those of another release, and go with one that has none', () => {
    run({ 'app.yaml': 'a', 'old.yaml': 'b' });
    expect(Object.keys(run({ 'app.yaml': 'c' }) ?? {})).toEqual(['app.yaml', 'kustomization.yaml']);
    expect(run({ 'firmware.bin': 'x' })).toBeUndefined();
    expect(readdirSync(join(root, 'manifests.d'))).toEqual([]);
  });

  it('are whole after a cut at any point', () => {
    run({ 'app.yaml': 'a' });
    for (const name of ['.stickpin-shop.new', '.stickpin-shop.old']) {
      mkdirSync(join(root, name));
      writeFileSync(join(root, name, 'left.yaml'), 'x');
    }
    expect(Object.keys(run({ 'app.yaml': 'b' }) ?? {})).toEqual(['app.yaml', 'kustomization.yaml']);
    expect(readdirSync(join(root, 'manifests.d'))).toEqual(['stickpin-shop']);
    expect(readdirSync(root).filter((name) => name.startsWith('.'))).toEqual([]);
  });

  it('leave those of others alone', () => {
    mkdirSync(join(root, 'manifests.d/mine'), { recursive: true });
    run({ 'app.yaml': 'a' });
    expect(readdirSync(join(root, 'manifests.d'))).toEqual(['mine', 'stickpin-shop']);
  });
});

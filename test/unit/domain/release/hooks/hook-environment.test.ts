import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { hookEnvironment } from '../../../../../src/domain/release/hooks.ts';
import { referenceOf, verified } from '../../../../support/daemon/scenario.ts';

const bundle = verified({ version: '4.13.7', images: {} });

describe('the environment of a hook', () => {
  it('has all variables that the unit needs', () => {
    expect(hookEnvironment('ready', bundle, '/var/lib/stickpin/releases/ocp/4.13.7')).toBe(
      [
        'STICKPIN_HOOK="ready"',
        'STICKPIN_BUNDLE="ocp@4.13.7"',
        'STICKPIN_NAME="ocp"',
        'STICKPIN_VERSION="4.13.7"',
        `STICKPIN_DIGEST="${bundle.bundleId}"`,
        'STICKPIN_ATTACHMENTS="/var/lib/stickpin/releases/ocp/4.13.7"',
        'STICKPIN_MEDIUM=""',
        'STICKPIN_CODE=""',
        '',
      ].join('\n'),
    );
    expect(hookEnvironment('ready', bundle)).toContain('STICKPIN_ATTACHMENTS=""\n');
  });

  it('names the images that have a component, by digest', () => {
    const images = { a: ['a'], b: ['b'], c: ['c'] };
    const imageOver = { a: { component: 'os' }, b: { component: 'etcd-io' }, c: { component: 'etcd.io' } };
    const text = hookEnvironment('ready', verified({ images, imageOver })) ?? '';
    expect(text.split('\n').filter((line) => line.startsWith('STICKPIN_IMAGE'))).toEqual([
      `STICKPIN_IMAGE_OS="${referenceOf('a')}"`,
      `STICKPIN_IMAGE_ETCD_IO="${referenceOf('b')}"`,
    ]);
  });

  it('keeps values as they are, as a shell reads them', () => {
    const attachments = '/srv/a b/"c"/$HOME/`id`/back\\slash/#d';
    const folder = mkdtempSync(join(tmpdir(), 'stickpin-env-'));
    writeFileSync(join(folder, 'env'), hookEnvironment('ready', bundle, attachments) ?? '');
    const script = '. "$0"/env; printf %s "$STICKPIN_ATTACHMENTS"';
    expect(execFileSync('/bin/sh', ['-c', script, folder], { encoding: 'utf8' })).toBe(attachments);
    rmSync(folder, { recursive: true });
  });

  it('is refused when systemd would ignore a value', () => {
    expect(hookEnvironment('ready', bundle, '/srv/a\nSTICKPIN_HOOK=x')).toBeUndefined();
  });
});

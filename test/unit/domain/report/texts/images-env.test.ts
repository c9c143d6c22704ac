import { expect, it } from 'vitest';
import { imagesEnv, keepUnclaimedLines } from '../../../../../src/domain/report/texts/images-env.ts';
import { NOON, referenceOf, stored, verified } from '../../../../support/daemon/scenario.ts';

const images = { etcd: ['base'], 'kube-proxy': ['base'], kube_proxy: ['base'], plain: ['base'] };
const good = verified({ images, imageOver: { plain: { component: undefined } as object } });
const marks = { readyAt: NOON, activatedAt: NOON };

it('names each component of the last known good release by digest; the first one of two with the same variable', () => {
  const older = verified({ sequence: 6, version: '4.13.6', images: { old: ['old'] } });
  const newer = verified({ sequence: 8, version: '4.13.8', images: { next: ['next'] } });
  const tools = verified({ name: 'tools', version: '1.0.0', images: { etcd: ['base'], shell: ['base'] } });
  const text = imagesEnv([
    stored(tools, { ...marks, provenAt: NOON }),
    stored(older, { ...marks, provenAt: NOON }),
    stored(good, { ...marks, provenAt: NOON + 1 }),
    stored(newer, { ...marks, activatedAt: NOON + 2 }),
  ]);
  expect(text).toBe(
    [
      '# Last known good releases, written by stickpin.',
      '# ocp@4.13.7',
      `STICKPIN_ETCD=${referenceOf('etcd')}`,
      `STICKPIN_KUBE_PROXY=${referenceOf('kube-proxy')}`,
      `# STICKPIN_KUBE_PROXY is taken; kube_proxy is ${referenceOf('kube_proxy')}`,
      '# tools@1.0.0',
      `# STICKPIN_ETCD is taken; etcd is ${referenceOf('etcd')}`,
      `STICKPIN_SHELL=${referenceOf('shell')}`,
      '',
    ].join('\n'),
  );
});

it("names the components of streams with plain keys first, so that a role can't take their variables", () => {
  const customer = verified({ name: 'app', version: '1.0.0', images: { etcd: ['base'], shell: ['base'] } });
  const keyId = 'c'.repeat(64);
  const ofRole = { signerKeyIds: [keyId], signerRoles: [{ keyId, role: 'customer' }] };
  const text = imagesEnv([
    { ...stored(customer, { ...marks, provenAt: NOON }), ...ofRole },
    stored(good, { ...marks, provenAt: NOON }),
  ]);
  expect(text.split('\n').filter((line) => /^#? ?(STICKPIN_ETCD|ocp|app)/.test(line))).toEqual([
    '# ocp@4.13.7',
    `STICKPIN_ETCD=${referenceOf('etcd')}`,
    '# app@1.0.0',
    `# STICKPIN_ETCD is taken; etcd is ${referenceOf('etcd')}`,
  ]);
});

it('keeps earlier lines only for unclaimed pins that no release sets', () => {
  const before = '# ocp@4.13.7\nSTICKPIN_ETCD=etcd@1\nSTICKPIN_API=api@1\nSTICKPIN_GONE=gone@1\nFOREIGN=api@1\n';
  const text = '# Last known good releases, written by stickpin.\nSTICKPIN_API=api@2\n';
  const kept = keepUnclaimedLines(text, before, ['etcd@1', 'api@1']);
  expect(kept.split('\n').filter((line) => !line.startsWith('#'))).toEqual([
    'STICKPIN_API=api@2',
    'STICKPIN_ETCD=etcd@1',
    '',
  ]);
  expect(keepUnclaimedLines(text, before, [])).toBe(text);
});

it('is empty while no release is proven, or when the last one was given up', () => {
  expect(imagesEnv([stored(good, marks)])).toBe('# Last known good releases, written by stickpin.\n');
  const gone = stored(good, { ...marks, provenAt: NOON + 1, retiredAt: NOON + 2 });
  expect(imagesEnv([gone])).toBe('# Last known good releases, written by stickpin.\n');
});

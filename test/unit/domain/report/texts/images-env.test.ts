import { expect, it } from 'vitest';
import { imagesEnv, keepUnclaimedLines, unsetVariables } from '../../../../../src/domain/report/texts/images-env.ts';
import { NOON, referenceOf, stored, verified } from '../../../../support/daemon/scenario.ts';

const images = { etcd: ['base'], 'kube-proxy': ['base'], kube_proxy: ['base'], plain: ['base'] };
const good = verified({ images, imageOver: { plain: { component: undefined } as object } });
const marks = { readyAt: NOON, activatedAt: NOON };

it('names each component of the last known good release by digest; the first one of two with the same variable', () => {
  const older = verified({ sequence: 6, version: '4.13.6', images: { old: ['old'] } });
  const newer = verified({ sequence: 8, version: '4.13.8', images: { next: ['next'] } });
  const tools = verified({ name: 'tools', version: '1.0.0', images: { etcd: ['base'], shell: ['base'] } });
  const text = imagesEnv(
    [
      stored(tools, { ...marks, provenAt: NOON }),
      stored(older, { ...marks, provenAt: NOON }),
      stored(good, { ...marks, provenAt: NOON + 1 }),
      stored(newer, { ...marks, activatedAt: NOON + 2 }),
    ],
    1,
  );
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

/** A proven release that keys of a role signed, and `plain` plain keys. */
function ofRole(role: string, name: string, components: readonly string[], plain = 0) {
  const one = verified({
    name,
    version: '1.0.0',
    images: Object.fromEntries(components.map((one) => [one, ['base']])),
  });
  const [keyId, ...plainIds] = ['c', 'd', 'e'].map((digit) => digit.repeat(64)).slice(0, plain + 1);
  return {
    ...stored(one, { ...marks, provenAt: NOON }),
    signerKeyIds: [keyId ?? '', ...plainIds],
    signerRoles: [{ keyId: keyId ?? '', role }],
  };
}
const linesAbout = (text: string, variable: string) =>
  text.split('\n').filter((line) => new RegExp(`^(# )?${variable}\\b`).test(line));

it.each([
  { when: 'proven', over: { provenAt: NOON }, set: [`STICKPIN_ETCD=${referenceOf('etcd')}`] },
  { when: 'not proven yet', over: {}, set: [] },
])('gives a role no variable of a release of plain keys that is $when', ({ over, set }) => {
  const text = imagesEnv([ofRole('customer', 'app', ['etcd', 'shell']), stored(good, { ...marks, ...over })], 1);
  expect(linesAbout(text, 'STICKPIN_ETCD')).toEqual([
    ...set,
    `# STICKPIN_ETCD belongs to a release of plain keys, not to role customer; etcd is ${referenceOf('etcd')}`,
  ]);
  expect(linesAbout(text, 'STICKPIN_SHELL')).toEqual([`STICKPIN_SHELL=${referenceOf('shell')}`]);
  expect(unsetVariables(text)).toContainEqual(expect.stringMatching(/^STICKPIN_ETCD belongs to/));
});

it('leaves out a variable that two roles claim, and says so for each', () => {
  const text = imagesEnv([ofRole('a', 'app', ['etcd', 'one']), ofRole('b', 'base', ['etcd', 'two'])], 1);
  const line = `# STICKPIN_ETCD is left out: roles a, b claim it; etcd is ${referenceOf('etcd')}`;
  expect(linesAbout(text, 'STICKPIN_ETCD')).toEqual([line, line]);
  expect(linesAbout(text, 'STICKPIN_(ONE|TWO)')).toHaveLength(2);
});

it('takes a release with fewer plain signatures than the threshold for one of its role', () => {
  const platform = stored(good, { ...marks, provenAt: NOON });
  const customer = (plain: number) => ofRole('customer', 'app', ['etcd'], plain);
  expect(linesAbout(imagesEnv([customer(1), platform], 2), 'STICKPIN_ETCD')).toEqual([
    `STICKPIN_ETCD=${referenceOf('etcd')}`,
    expect.stringMatching(/^# STICKPIN_ETCD belongs to a release of plain keys, not to role customer/),
  ]);
  expect(linesAbout(imagesEnv([customer(2), platform], 2), 'STICKPIN_ETCD')[1]).toMatch(/is taken/);
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
  expect(imagesEnv([stored(good, marks)], 1)).toBe('# Last known good releases, written by stickpin.\n');
  const gone = stored(good, { ...marks, provenAt: NOON + 1, retiredAt: NOON + 2 });
  expect(imagesEnv([gone], 1)).toBe('# Last known good releases, written by stickpin.\n');
});

import { expect, it } from 'vitest';
import { shownMembers } from '../../../../src/cli/output/render/render-show.ts';
import { shortDigests } from '../../../../src/cli/output/text.ts';

it('says each member in words, and leaves out what is empty', () => {
  const advisories = [
    { version: '4.13.5', deadend: true, barrier: true, reason: 'etcd may lose writes' },
    { version: '4.13.4', reason: 'it was wrong' },
  ];
  const members = {
    bundleId: 'sha256:aa',
    sequence: 7,
    hold: 'media',
    reason: { code: 'x/y', message: 'why' },
    signedBy: ['a', 'b'],
    media: [],
    images: { total: 3, present: 2, pinned: 1 },
    sizeBytes: 2 ** 30,
    cancelled: { at: '2026-03-10T12:00:30.000Z', media: ['7-sda1'] },
    current: true,
    advisories,
  };
  expect(shownMembers(members)).toEqual([
    ['digest', 'sha256:aa'],
    ['sequence', '7'],
    ['held for', 'media'],
    ['reason', 'S-00 why'],
    ['signed by', 'a, b'],
    ['images', '2 of 3 present, 1 pinned'],
    ['size', '1.0 GiB'],
    ['cancelled', 'on 2026-03-10T12:00:30.000Z'],
    ['current', 'yes'],
    [
      'advisories',
      '4.13.5: a dead end and a barrier (etcd may lose writes); 4.13.4: an earlier advisory is withdrawn (it was wrong)',
    ],
  ]);
  expect(shownMembers({ images: { total: 3 } })).toEqual([['images', '3']]);
});

it('shortens digests on a terminal only', () => {
  const text = `api@sha256:${'7'.repeat(64)} and sha256:${'a'.repeat(12)}`;
  expect(shortDigests(text, {})).toBe(text);
  expect(shortDigests(text, { columns: 80 })).toBe(`api@sha256:777777777777… and sha256:${'a'.repeat(12)}`);
});

import { describe, expect, it } from 'vitest';
import { findShown } from '../../../../src/cli/context/find-shown.ts';
import type { BundleReport, StatusReport } from '../../../../src/domain/report/status-schema.ts';
import { digestOf } from '../../../support/daemon/scenario.ts';

const bundle = (name: string, version: string, over: Partial<BundleReport> = {}): BundleReport => ({
  bundleId: digestOf(`${name} ${version}`),
  name,
  version,
  sequence: 1,
  phase: 'ready',
  signedBy: [],
  media: [],
  images: { total: 1, present: 1, pinned: 1 },
  sizeBytes: 1,
  ...over,
});
const notice: StatusReport['notices'][number] = {
  bundleId: digestOf('notice'),
  name: 'advice',
  version: '2026.3.1',
  sequence: 5,
  signedBy: [],
  adoptedAt: '2026-03-10T12:00:00Z',
  advisories: [],
};
const reason = { code: 'bundle/signature', message: 'signature by unknown key 5f0c' };
const nameless = { medium: 'sdb1', path: 'stickpin/ocp-4.13.9-amd64', reason };
const named = { ...nameless, path: 'stickpin/arm', name: 'ocp@4.13.8', bundleId: digestOf('arm') };
const unapproved = bundle('', '', { bundleId: digestOf('unapproved'), phase: 'held', hold: 'approval' });
const older = bundle('ocp', '4.13.6');
const tools = bundle('tools', '1.0.0');
const banned = {
  name: 'ocp',
  version: '4.13.9',
  since: '2026-03-10T12:00:00.000Z',
  reason: { code: 'trust/rejected', message: 'ocp@4.13.9 was rejected on this node' },
};
const report = {
  bundles: [older, bundle('ocp', '4.13.7'), tools, unapproved],
  notices: [notice],
  rejected: [nameless, named],
  rejectedNames: [banned],
};
const find = (asked: string) => findShown(report, asked);
const hex = (id: string, digits = 8) => id.slice('sha256:'.length, 'sha256:'.length + digits);

describe('findShown', () => {
  it.each([
    ['name and version', 'ocp@4.13.6', older],
    ['digest', older.bundleId, older],
    ['the first digits of the digest', hex(older.bundleId), older],
    ['a digest as messages shorten it', `sha256:${hex(older.bundleId, 12)}…`, older],
    ['the name alone where it is the only one', 'tools', tools],
    ['a notice', 'advice@2026.3.1', notice],
    ['a notice by its name alone', 'advice', notice],
    ['one that waits for approval and has no name', unapproved.bundleId, unapproved],
    ['its first digits', hex(unapproved.bundleId), unapproved],
    ['a rejected one by its path, as list shows it', 'stickpin/ocp-4.13.9-amd64', { ...nameless, phase: 'rejected' }],
    ['a rejected one by its folder', 'ocp-4.13.9-amd64', { ...nameless, phase: 'rejected' }],
    ['a rejected one by name and version', 'ocp@4.13.8', { ...named, phase: 'rejected' }],
    ['a rejected one by its digest', named.bundleId, { ...named, phase: 'rejected' }],
    ['a name that was rejected ahead of its stick', 'ocp@4.13.9', { ...banned, phase: 'rejected' }],
    ['a rejected one by the first digits', hex(named.bundleId), { ...named, phase: 'rejected' }],
  ])('finds by %s', (_how, asked, expected) => {
    expect(find(asked)).toEqual(expected);
  });

  const twin = bundle('ocp', '4.13.6', { bundleId: digestOf('twin'), sequence: 2 });
  const among = (bundles: readonly BundleReport[], rejected: StatusReport['rejected'] = []) =>
    findShown({ bundles, notices: [], rejected, rejectedNames: [{ ...banned, version: '4.13.6' }] }, 'ocp@4.13.6');
  const retired = { ...older, phase: 'retired' } as const;

  it('prefers an adopted bundle to a rejected one with the same name, and a live one to a retired one', () => {
    expect(among([older], [{ ...named, name: 'ocp@4.13.6' }])).toBe(older);
    expect(among([twin, retired])).toBe(twin);
    expect(among([retired, { ...twin, phase: 'retired' }])).toMatchObject({ bundleId: twin.bundleId });
  });

  it('asks for the digest when several have the same name and version', () => {
    expect(() => among([older, twin])).toThrow(
      `2 bundles here are called ocp@4.13.6: name the one you mean by its digest, ${older.bundleId} (sequence 1) or ${twin.bundleId} (sequence 2)`,
    );
    const [one, other] = [
      { ...named, name: 'ocp@4.13.6' },
      { ...nameless, name: 'ocp@4.13.6', bundleId: digestOf('x') },
    ];
    expect(() => among([], [one, other])).toThrow('by its digest');
    // The same bundle on two media is one.
    expect(among([], [one, { ...one, medium: 'sdc1' }])).toMatchObject({ bundleId: named.bundleId });
  });

  it('lists the bundles that an ambiguous name may mean, and names an unknown bundle', () => {
    expect(() => find('ocp')).toThrow('ocp may mean ocp@4.13.6, ocp@4.13.7, ocp@4.13.8; give the whole name');
    expect(() => find('ocp@9')).toThrow("no bundle ocp@9 is known here or plugged in; 'stickpin list' shows those");
    expect(() => find(hex(older.bundleId, 4))).toThrow('no bundle');
  });
});

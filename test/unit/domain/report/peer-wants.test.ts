import { describe, expect, it } from 'vitest';
import {
  isWantedFromPeers,
  refusedForGood,
  type WantsReport,
  withheldFromPeers,
} from '../../../../src/domain/report/peer-wants.ts';
import type { BundleReport } from '../../../../src/domain/report/status-schema.ts';
import { digestOf } from '../../../../src/platform/digest.ts';

const bundleId = digestOf('ocp 4.13.7');
const offered = { bundleId, name: 'ocp', version: '4.13.7', sequence: 7, isWhole: true, revision: 'r' };
const nothing: WantsReport = { bundles: [], notices: [], rejected: [], rejectedNames: [] };

function bundle(over: Partial<BundleReport>): BundleReport {
  return {
    bundleId,
    name: 'ocp',
    version: '4.13.7',
    sequence: 7,
    phase: 'preloading',
    signedBy: [],
    media: [],
    images: { total: 2, present: 0, pinned: 0 },
    sizeBytes: 1,
    ...over,
  };
}

describe('isWantedFromPeers', () => {
  it('takes what is not known, and what lacks images', () => {
    expect(isWantedFromPeers(offered, nothing)).toBe(true);
    expect(isWantedFromPeers(offered, { ...nothing, bundles: [bundle({})] })).toBe(true);
    expect(isWantedFromPeers(offered, { ...nothing, bundles: [bundle({ phase: 'proven' })] })).toBe(true);
    expect(isWantedFromPeers(offered, { ...nothing, bundles: [bundle({ phase: 'held', hold: 'approval' })] })).toBe(
      true,
    );
  });

  it.each([
    ['complete', bundle({ phase: 'ready', images: { total: 2, present: 2, pinned: 2 } })],
    ['retired', bundle({ phase: 'retired' })],
    ['rejected', bundle({ phase: 'rejected' })],
    ['cancelled', bundle({ phase: 'held', cancelled: { at: '2026-01-01T00:00:00Z', media: [] } })],
    ['as old as the activated release', bundle({ bundleId: digestOf('b'), activatedAt: '2026-01-01T00:00:00Z' })],
    ['older', bundle({ bundleId: digestOf('b'), sequence: 8, activatedAt: '2026-01-01T00:00:00Z' })],
  ])('leaves what is %s', (_what, known) => {
    expect(isWantedFromPeers(offered, { ...nothing, bundles: [known] })).toBe(false);
  });

  it('takes what is newer than the activated release, and other streams', () => {
    const older = bundle({ bundleId: digestOf('b'), sequence: 6, activatedAt: '2026-01-01T00:00:00Z' });
    const other = bundle({ bundleId: digestOf('b'), name: 'app', sequence: 9, activatedAt: '2026-01-01T00:00:00Z' });
    expect(isWantedFromPeers(offered, { ...nothing, bundles: [older, other] })).toBe(true);
  });

  it('leaves what people rejected by name', () => {
    const name = { name: 'ocp', version: '4.13.7', since: '', reason: { code: 'trust/rejected', message: '' } };
    expect(isWantedFromPeers(offered, { ...nothing, rejectedNames: [name] })).toBe(false);
  });
});

describe('refusals', () => {
  const refusal = (code: string) => ({ medium: 'worker-2', path: 'p', bundleId, reason: { code, message: '' } });

  it('are final where nothing changes them', () => {
    expect(refusedForGood({ ...nothing, rejected: [refusal('bundle/arch')] })).toEqual([bundleId]);
    expect(refusedForGood({ ...nothing, rejected: [refusal('bundle/from-the-future')] })).toEqual([]);
    expect(refusedForGood({ ...nothing, rejected: [refusal('trust/blind')] })).toEqual([]);
  });

  it('keep a bundle from being given on when they are about trust', () => {
    expect([...withheldFromPeers({ ...nothing, rejected: [refusal('trust/key-revoked')] })]).toEqual([bundleId]);
    expect([...withheldFromPeers({ ...nothing, rejected: [refusal('bundle/arch')] })]).toEqual([]);
    expect([...withheldFromPeers({ ...nothing, bundles: [bundle({ phase: 'rejected' })] })]).toEqual([bundleId]);
    const awaiting = bundle({ phase: 'held', hold: 'approval' });
    expect([...withheldFromPeers({ ...nothing, bundles: [awaiting] })]).toEqual([bundleId]);
  });
});

import type { OwnBundle, OwnReport } from '../../../src/fleet/publish/own-report.ts';
import { digestOf } from '../../../src/platform/digest.ts';

/**
 * One bundle of a status document: `ocp 4.13.7` with 10 images, `preloading` unless it says
 * otherwise.
 */
export function ownBundle(over: Partial<OwnBundle> = {}): OwnBundle {
  const name = over.name ?? 'ocp';
  const version = over.version ?? '4.13.7';
  return {
    bundleId: digestOf(`${name}@${version}`),
    name,
    version,
    sequence: 7,
    phase: 'preloading',
    activationHolds: [],
    conditions: [],
    signedBy: ['factory-2026'],
    media: ['sdb1'],
    images: { total: 10, present: 0, pinned: 0 },
    sizeBytes: 16 * 1024 ** 3,
    adoptedAt: '2026-11-23T10:00:00.000Z',
    ...over,
  };
}

/** A status document with these bundles, on a node where nothing is wrong. */
export function ownReport(bundles: readonly OwnBundle[], over: Partial<OwnReport> = {}): OwnReport {
  return {
    runtime: { reachable: true, name: 'cri-o 1.36.3' },
    media: [],
    bundles: [...bundles],
    rejected: [],
    stateProblems: [],
    wanted: [],
    pauses: [],
    progress: { doneBytes: 0, totalBytes: 0 },
    ...over,
  };
}

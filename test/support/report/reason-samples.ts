import { digestFromHex } from '../../../src/domain/model/digest.ts';
import type { Conclusion } from '../../../src/domain/report/entries.ts';

type Samples = {
  readonly [Code in Conclusion['code']]: readonly Extract<Conclusion, { readonly code: Code }>['data'][];
};

const bundle = { name: 'ocp', version: '4.13.7' };
const older = { name: 'ocp', version: '4.13.6' };
const images = { present: 37, total: 112 };
const bundleId = digestFromHex('a'.repeat(64));
const knownId = digestFromHex('b'.repeat(64));
const digest = digestFromHex('5f'.repeat(32));
const reference = 'quay.io/x/etcd:3.5';
const signedBy = ['audit', 'factory-2026'];
const role = { bundle, signedBy, role: 'vendor' };
const base = { bundleId: knownId, name: 'ocp@4.13.6', isAdopted: true };
const flaws = { digest, why: 'damaged', medium: 'sdb1', more: 0 } as const;
const missing = { bundle, missing: 4, total: 9, named: ['quay.io/x/a', 'quay.io/x/b'], isList: true };
const damaged = { bundle, damaged: 2, total: 9, reference };
const pins = { bundle, unpinned: 2, total: 9 };
const space = { path: '/var/lib/containers', needed: 3 * 1024 ** 3, free: 1024 ** 3, reserved: 1024 ** 2, percent: 15 };

/** Usual data of every code, of each kind. */
export const REASON_SAMPLES: Samples = {
  'bundle/arch': [{ bundle, bundleArch: 'arm64', nodeArch: 'amd64' }],
  'bundle/sequence': [
    { kind: 'below-floor', bundle, sequence: 7, floor: 8 },
    { kind: 'step', bundle, sequence: 900, highest: 7, step: 100 },
    { kind: 'same', bundle, bundleId, sequence: 7, known: { name: 'ocp', version: '4.13.7-rev2' }, knownId },
  ],
  'bundle/version': [
    { bundle, scheme: 'semver' },
    { bundle, scheme: 'three-tag' },
  ],
  'bundle/base': [{ bundle, base: { name: 'tools', version: '1.0.0' } }],
  'bundle/expired': [{ bundle, expires: '2026-05-01T00:00:00Z' }],
  'bundle/from-the-future': [{ bundle, created: '2030-01-01T00:00:00Z' }],
  'trust/approval': [
    { kind: 'found', bundleId, bundle, medium: 'sdb1', signedBy },
    { kind: 'found', bundleId, bundle, medium: 'sdb1', signedBy: [] },
    { kind: 'found-unsigned', bundleId, medium: 'sdb1' },
    { kind: 'adopted', bundleId, bundle },
  ],
  'trust/rejected': [
    { kind: 'found', bundleId, bundle, why: 'it was made by mistake' },
    { kind: 'found', bundleId },
    { kind: 'adopted', bundleId, bundle },
  ],
  'trust/blind': [{ bundle, cause: 'keys.d can be written by others' }, { bundle }],
  'trust/threshold': [{ bundle, signedBy, threshold: 3 }],
  'trust/role': [
    { ...role, why: { kind: 'no-role' } },
    { ...role, why: { kind: 'threshold', threshold: 2, left: 1 } },
    { ...role, why: { kind: 'stream', stream: 'ocp' } },
    { ...role, why: { kind: 'repository', stream: 'ocp', repository: 'quay.io/x' } },
  ],
  'trust/key-revoked': [
    { bundle, signedBy, keyIds: ['0123456789abcdef'] },
    { bundle, signedBy, keyIds: ['0123456789abcdef', 'fedcba9876543210'] },
  ],
  'engine/no-base': [
    { bundle, layers: 2, base },
    { bundle, layers: 2, base: { ...base, isRetired: true }, holders: ['ocp@4.13.6'] },
    { bundle, layers: 2, base, holders: ['ocp@4.13.4', 'ocp@4.13.5'] },
    { bundle, layers: 1, base: { bundleId: knownId, isAdopted: false } },
  ],
  'engine/cancelled': [{ bundle, images }],
  'engine/offline': [{ bundle, media: ['sdb1', 'sdc1'] }],
  'bundle/blob-missing': [
    { kind: 'on-all-media', bundle, images, media: ['sdb1'], blobs: 1, first: { digest, why: 'truncated' } },
    { kind: 'on-all-media', bundle, images, media: ['sdb1', 'sdc1'], blobs: 0, first: { reference } },
    { kind: 'rest', bundle, images, layers: 2, sizeBytes: 5 * 1024 ** 2, first: digest },
  ],
  'engine/needs-copy': [
    { bundle, images, flaws },
    { bundle, images, flaws: { ...flaws, why: 'unreadable', more: 2 } },
    { bundle, images, flaws: { ...flaws, why: 'truncated' } },
    { bundle, images, flaws: { ...flaws, why: 'absent' } },
  ],
  'engine/no-source': [
    { bundle, images, how: { kind: 'unplugged' } },
    { bundle, images, how: { kind: 'unmounted', medium: 'sdb1' } },
    { bundle, images, how: { kind: 'taken-out' } },
    { bundle, images, how: { kind: 'taken-out', folder: '/mnt/a' } },
    { bundle, images, how: { kind: 'peer-away', peer: 'worker-3' } },
  ],
  'media/peer-waited-for': [
    { bundle, images, peer: 'worker-3', queue: { place: 2, waiting: 5, waitMs: 130_000 } },
    { bundle, images, peer: 'worker-3', queue: { place: 2, waiting: 5, mostMs: 600_000 } },
    { bundle, images, peer: 'worker-3', queue: { place: 1, waiting: 1 } },
    { bundle, images, peer: 'worker-3' },
  ],
  'media/looking': [{ bundle, images }],
  'media/reading': [{ bundle, images, medium: 'sdb1' }],
  'engine/image-missing': [
    { ...missing, next: { kind: 'pull' } },
    { ...missing, missing: 1, named: ['quay.io/x/a'], isList: false, next: { kind: 'pull' } },
    { ...missing, isMixed: true, next: { kind: 'look' } },
    { ...missing, next: { kind: 'copy', flaws } },
    { ...missing, next: { kind: 'plug-in' } },
    { ...missing, next: { kind: 'plug-in', base: 'ocp@4.13.6' } },
  ],
  'engine/image-damaged': [
    { ...damaged, fault: { kind: 'blob', digest, why: 'lost' }, next: 'heal' },
    { ...damaged, fault: { kind: 'blob', digest, why: 'truncated' }, next: 'plug-in' },
    { ...damaged, fault: { kind: 'blob', digest, why: 'altered' }, next: 'plug-in', base: 'ocp@4.13.6' },
    { ...damaged, fault: { kind: 'blob', digest, why: 'unreadable' }, next: 'cancelled' },
    { ...damaged, fault: { kind: 'document-absent', digest }, next: 'in-use' },
    { ...damaged, fault: { kind: 'layer-absent', digest }, next: 'shared' },
    { ...damaged, fault: { kind: 'records', what: 'its layer is not in layers.json' }, next: 'look' },
    { ...damaged, damaged: 1, fault: { kind: 'document-absent', digest }, next: 'give-up' },
  ],
  'engine/documents-missing': [
    { bundle, lacking: 2, total: 9, reference },
    { bundle, lacking: 1, total: 9, isMixed: true, reference },
  ],
  'runtime/sync-pending': [
    { bundle, images: 112 },
    { bundle, images: 1 },
  ],
  'engine/unchecked': [
    { bundle, images: 112 },
    { bundle, images: 1 },
  ],
  'runtime/pins-pending': [pins, { ...pins, unpinned: 1 }],
  'runtime/pins-ignored': [
    { ...pins, cause: { kind: 'not-reported', attempts: 4, first: reference } },
    { ...pins, unpinned: 1, cause: { kind: 'fault', fault: { code: 'runtime/config', message: 'z.conf is broken' } } },
  ],
  'engine/no-space': [
    { bundle, shortage: { kind: 'bytes', ...space } },
    { bundle, shortage: { kind: 'inodes', ...space, needed: 5_000, free: 400, reserved: 0 } },
    { bundle, shortage: { kind: 'staging', ...space, isKeptForKubelet: true } },
  ],
  'engine/over-share': [
    { bundle, share: { role: 'customer', needed: 3 * 1024 ** 3, used: 18 * 1024 ** 3, max: 20 * 1024 ** 3 } },
  ],
  'runtime/policy': [
    { bundle, images: 2, first: { code: 'runtime/policy', message: 'Source image rejected: signature required' } },
  ],
  'runtime/version': [{ runtime: 'cri-o 1.27.8', needed: 'CRI-O 1.28' }],
  'engine/tag-contested': [
    { bundle, tag: reference, reference: 'quay.io/x/etcd@sha256:5f5f', names: 'quay.io/y:1', times: 3 },
    { bundle, tag: reference, reference: 'quay.io/x/etcd@sha256:5f5f', times: 3 },
  ],
  'engine/rolled-back': [
    { bundle, recorded: 'ocp 4.13.7 was rolled back: ocp 4.13.6 runs again' },
    { bundle, recorded: 'ocp 4.13.7 was rolled back to ocp 4.13.6 by hand', isByHand: true },
    { bundle, recorded: '', to: older },
  ],
};

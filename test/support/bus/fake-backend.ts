import type { ApiBackend, ApiMethods } from '../../../src/api/backend.ts';
import type { StatusReport } from '../../../src/domain/report/status-schema.ts';

/** The report of a daemon that has nothing to do; `over` is what differs. */
export function idleReport(over: Partial<StatusReport> = {}): StatusReport {
  return {
    status: 'IDLE: No bundle yet.',
    advice: { action: 'none', words: '', text: 'No bundle yet.' },
    needsPerson: [],
    verdict: 'good',
    waitsForAdmin: [],
    operation: 'idle',
    runtime: { reachable: true, name: 'cri-o 1.31.0' },
    media: [],
    bundles: [],
    notices: [],
    rejected: [],
    rejectedNames: [],
    conditions: [],
    unclaimed: [],
    streams: [],
    windows: [],
    stateProblems: [],
    hooks: [],
    trust: { require: 'signature', threshold: 1, keys: [], revoked: [], problems: [], revocationsUnreadable: false },
    wanted: [],
    pauses: [],
    protected: [],
    progress: { doneBytes: 0, totalBytes: 0 },
    ...over,
  };
}

/**
 * A back end of plain functions; `report` is by default that of an idle daemon, and methods do
 * nothing.
 */
export function fakeBackend(
  methods: Partial<ApiMethods> = {},
  report: () => StatusReport | undefined = () => idleReport(),
): ApiBackend & { publish(report: StatusReport, newestEvent?: number): void } {
  let newestEvent = 0;
  const listeners = new Set<(report: StatusReport) => void>();
  return {
    methods: { ...IDLE, ...methods },
    report,
    publish: (next, event = newestEvent) => {
      newestEvent = event;
      for (const listener of listeners) listener(next);
    },
    newestEvent: () => newestEvent,
    onReport: (listener) => {
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
      };
    },
  };
}

const nothing = async (): Promise<void> => undefined;
const text = async (): Promise<string> => '';
const IDLE: ApiMethods = {
  getHistory: async () => [],
  getImages: async () => [],
  getImageStates: async () => [],
  activate: nothing,
  rollback: text,
  unpin: text,
  unpinUnclaimed: text,
  cancel: nothing,
  checkPulls: nothing,
  verifyImages: async () => [],
  approve: text,
  reject: text,
  prove: text,
  pauseRollOut: text,
  resumeRollOut: text,
  restoreKey: text,
  revokeKey: text,
  resetStream: text,
  rescan: nothing,
  load: text,
};

/**
 * A report in which every member is present somewhere, in the order in which the daemon writes
 * them.
 */
export function sampleReport(): StatusReport {
  const reason = { code: 'rule/from', message: 'Its activation is held' };
  return idleReport({
    media: [
      { medium: 'sdb1', kind: 'stick', state: 'read', bundles: 2 },
      {
        medium: 'sdc1',
        kind: 'stick',
        state: 'failed',
        bundles: 0,
        reason: { code: 'media/mount', message: 'no filesystem' },
      },
    ],
    bundles: [adopted(reason), awaiting()],
    notices: [
      {
        bundleId: digest('c'),
        name: 'ocp',
        version: '2026.3.1',
        sequence: 5,
        signedBy: ['factory-2026'],
        signerKeyIds: [],
        adoptedAt: '2026-03-10T12:00:00.000Z',
        advisories: [{ version: '4.13.7', deadend: true, barrier: false, reason: 'etcd may lose writes' }],
        reason: { code: 'trust/key-revoked', message: 'its key is revoked' },
      },
    ],
    rejected: [
      { medium: 'sdb1', path: 'stickpin/a', reason: { code: 'bundle/signature', message: 'no signature' } },
      {
        medium: 'sdb1',
        path: 'stickpin/b',
        reason: { code: 'bundle/signature', message: 'signed by nobody' },
        name: 'b@1',
        bundleId: digest('d'),
      },
    ],
    rejectedNames: [
      {
        name: 'ocp',
        version: '4.13.9',
        since: '2026-03-10T12:00:00.000Z',
        reason: { code: 'trust/rejected', message: 'ocp@4.13.9 was rejected on this node (too old)' },
      },
    ],
    unclaimed: [
      { references: ['quay.io/a'] },
      { bundleId: digest('e'), name: 'e', version: '1', references: ['quay.io/e', 'quay.io/f'] },
    ],
    streams: [
      {
        name: 'ocp',
        scheme: 'semver',
        current: { version: '4.13.6', source: 'activated' },
        next: '4.13.7',
        notes: ['ocp 4.13.6 is a dead end'],
        releases: [
          { version: '4.13.6', sequence: 6, phase: 'proven', from: [], deadend: 'x' },
          { version: '4.13.7', sequence: 7, phase: 'ready', from: ['4.13.6'], barrier: 'y' },
        ],
      },
    ],
    windows: [
      { closesAt: '2026-03-10T13:00:00.000Z', text: 'open now to Tue 2026-03-10 13:00 (UTC)' },
      {
        opensAt: '2026-03-17T12:00:00.000Z',
        closesAt: '2026-03-17T13:00:00.000Z',
        text: 'Tue 2026-03-17 12:00 to Tue 2026-03-17 13:00 (UTC)',
      },
    ],
    stateProblems: [{ code: 'store/damaged', message: 'state.db was damaged' }],
    hooks: [
      { hook: 'ready', unit: 'a.service', state: 'running', bundle: 'ocp@4.13.7', at: '2026-03-10T12:00:00.000Z' },
      {
        hook: 'proven',
        unit: 'b.service',
        state: 'failed',
        bundle: 'ocp@4.13.7',
        at: '2026-03-10T12:00:00.000Z',
        message: 'b.service failed',
      },
    ],
    trust: {
      require: 'both',
      threshold: 2,
      keys: [
        { name: 'factory-2026', keyId: 'ab' },
        { name: 'rotated', keyId: 'cd', broughtBy: 'ocp@2026.3.1' },
      ],
      revoked: [{ keyId: 'ef', file: 'stolen.revoked' }, { keyId: '01', revokedBy: 'ocp@5' }, { keyId: '23' }],
      problems: ['notes.txt is ignored'],
      revocationsUnreadable: true,
      cause: 'the folder is gone',
    },
    wanted: [{ name: 'ocp', version: '4.14.0', nodes: ['worker-2'], message: 'Plug its stick into any node.' }],
    pauses: [
      {
        id: '5f0c1d2e3a4b',
        name: 'ocp',
        version: '4.13.7',
        node: 'worker-1',
        by: 'uid 1000',
        why: 'storage is being repaired',
        at: '2026-03-10T12:00:00.000Z',
        until: '2026-03-10T16:00:00.000Z',
        lifted: { node: 'worker-2', by: 'uid 0' },
        from: 'worker-1',
        liftedFrom: 'worker-2',
      },
    ],
    protected: [{ name: 'ocp', version: '4.13.5', ownBytes: 2 ** 41 }],
    progress: {
      doneBytes: 2 ** 33,
      totalBytes: 2 ** 33,
      bytesPerSecond: 41_000_000,
      isUnpacking: true,
      images: ['etcd'],
    },
  });
}

function adopted(reason: { readonly code: string; readonly message: string }): StatusReport['bundles'][number] {
  return {
    bundleId: digest('a'),
    name: 'ocp',
    version: '4.13.7',
    sequence: 7,
    phase: 'ready',
    reason,
    degraded: { code: 'engine/needs-copy', message: 'a blob is bad' },
    conditions: [
      {
        type: 'Verified',
        status: 'True',
        reason: 'SignedByTrustedKeys',
        message: 'signed by factory-2026',
        lastTransitionTime: '2026-03-10T12:00:00.000Z',
      },
    ],
    signedBy: ['factory-2026'],
    signerKeyIds: ['ab'],
    media: ['sdb1'],
    sources: [],
    images: { total: 2, present: 2, pinned: 2 },
    artifacts: { total: 2, present: 1 },
    sizeBytes: 2 ** 33,
    adoptedAt: '2026-03-10T12:00:00.000Z',
    readyAt: '2026-03-10T12:01:00.000Z',
    activatedAt: '2026-03-10T12:02:00.000Z',
    soakEndsAt: '2026-03-10T12:12:00.000Z',
    cancelled: { at: '2026-03-10T12:00:30.000Z', media: ['7-sda1'] },
    activationHolds: [
      { gate: 'from', code: 'rule/from', message: 'only from 4.12', releasedBy: 'person' },
      {
        gate: 'rollout',
        code: 'rule/rollout',
        message: 'a rollout',
        releasedBy: 'time',
        until: '2030-01-01T00:00:00.000Z',
      },
    ],
    rollOut: { begun: true, reads: ['zone'] },
    rules: [{ rule: 'from', value: '>=4.12.0', effect: 'holds-activation' }],
    warnings: ['an image has no tag'],
    verified: ['quay.io/edge: signed by key 5f0c (cosign.pub): 2 images'],
    ignored: ['colour'],
    current: false,
    runs: false,
    rolledBack: false,
    kept: 'kept as the last known good release',
    advisory: {
      version: '4.13.7',
      deadend: true,
      barrier: false,
      reason: 'etcd may lose writes',
      from: 'ocp@4.13.9',
      effect: 'holds-others',
    },
  };
}

/** One that waits for approval and was not read: nothing is known of it. */
function awaiting(): StatusReport['bundles'][number] {
  return {
    bundleId: digest('b'),
    name: '',
    version: '',
    sequence: 0,
    phase: 'held',
    hold: 'approval',
    signedBy: [],
    media: ['sdb1'],
    images: { total: 0, present: 0, pinned: 0 },
    sizeBytes: 0,
  };
}

function digest(digit: string): string {
  return `sha256:${digit.repeat(64)}`;
}

import type { ActivationHold } from '../../../src/domain/activation/gates.ts';
import { NOON } from '../daemon/scenario.ts';

const LONG = 'x'.repeat(128);
const WORDS = 'because the migration of the database must run first, '.repeat(4);

/** Every hold that people see, with usual values and with the longest ones. */
const HOLDS: Readonly<
  Record<ActivationHold['code'], readonly { readonly data: object; readonly releasedBy?: string }[]>
> = {
  'trust/withdrawn': [{ data: { reason: 'trust/key-revoked' } }],
  'engine/cancelled': [{ data: {} }],
  'engine/not-next': [{ data: { next: '4.13.8' }, releasedBy: 'event' }],
  'engine/denied': [{ data: {} }],
  'rule/from': [
    { data: { from: '>=4.13.0 <4.14.0', current: '4.12.9', isUnreadable: false } },
    { data: { from: LONG, current: LONG, isUnreadable: true, after: LONG }, releasedBy: 'event' },
  ],
  'rule/barrier': ['bundle', 'trust', 'activation', 'proof'].flatMap((lacks) => [
    { data: { barrier: '4.13.5', reason: 'migrates etcd', lacks }, releasedBy: 'event' },
    { data: { barrier: LONG, reason: WORDS, lacks, after: LONG } },
  ]),
  'rule/downgrade': [{ data: { current: '4.13.9', by: 'version' } }, { data: { current: LONG, by: 'sequence' } }],
  'rule/deadend': [
    { data: { current: '4.13.6', reason: 'etcd', saidBy: 'ocp@4.13.7' } },
    { data: { current: LONG, reason: WORDS, saidBy: `ocp@${LONG}` } },
  ],
  'rule/rollout': [
    { data: { turn: NOON, share: 0.1, wariness: 0.5, source: 'machine-id', isClockUnsure: true }, releasedBy: 'time' },
    { data: { turn: 1e300, share: 0, wariness: 1, source: 'none', isClockUnsure: true }, releasedBy: 'time' },
    { data: { share: 0, wariness: 1, source: 'none', isClockUnsure: false } },
  ],
  'rule/end-of-life': [{ data: { endOfLife: '2026-01-01T00:00:00+00:00', isClockUnsure: true } }],
  'engine/floor-unknown': [{ data: { stream: 'ocp' } }],
  'engine/below-floor': [
    { data: { stream: 'ocp', sequence: 7, floor: 8 } },
    { data: { stream: LONG, sequence: Number.MAX_SAFE_INTEGER - 1, floor: Number.MAX_SAFE_INTEGER } },
  ],
  window: [
    {
      data: {
        opensAt: NOON,
        closesAt: NOON + 3_600_000,
        timeZone: 'America/Argentina/ComodRivadavia',
        isClockUnsure: true,
      },
      releasedBy: 'time',
    },
    { data: { timeZone: 'UTC', isClockUnsure: false }, releasedBy: 'time' },
  ],
  clock: [
    {
      data: { kind: 'before-build', least: NOON, hasWindow: true, hasRollout: true, hasEndOfLife: true },
      releasedBy: 'event',
    },
    {
      data: { kind: 'far-before-bundle', least: NOON, hasWindow: true, hasRollout: true, hasEndOfLife: true },
      releasedBy: 'event',
    },
  ],
  'engine/manual': ['release', 'node', 'fleet'].map((by) => ({ data: { by } })),
  'engine/content-unchecked': [{ data: {}, releasedBy: 'event' }],
  'engine/content-damaged': [
    { data: { image: 'quay.io/x/etcd:3.5', more: 0 } },
    { data: { image: 'quay.io/x/etcd:3.5', more: 2 } },
  ],
  'engine/tags-in-motion': [{ data: {}, releasedBy: 'event' }],
  'engine/activation-failed': [{ data: { reason: 'runtime/tag' }, releasedBy: 'time' }],
  'fleet/nobody-known': [
    { data: { waitMs: 3_600_000, isFirst: false }, releasedBy: 'event' },
    { data: { waitMs: 3_600_000, isFirst: true }, releasedBy: 'event' },
    { data: { waitMs: 3_600_000, isFirst: true, isByKeys: true }, releasedBy: 'event' },
  ],
  'engine/tag-of-other-stream': [
    { data: { tag: 'quay.io/x:1', stream: 'ocp', other: 'tools', holder: 'tools@1.0.0' } },
    { data: { tag: `quay.example.com/${LONG}:${LONG}`, stream: LONG, other: LONG, holder: `x@${LONG}` } },
  ],
  'fleet/unknown': [{ data: {}, releasedBy: 'event' }],
  'fleet/labels': [{ data: {}, releasedBy: 'event' }],
  'fleet/reading': [
    { data: { why: undefined }, releasedBy: 'event' },
    { data: { why: WORDS }, releasedBy: 'event' },
  ],
  'fleet/paused': [
    {
      data: { id: '0123456789ab', node: 'worker-1', by: 'uid 1000', why: 'no power', until: NOON },
      releasedBy: 'time',
    },
    {
      data: {
        id: '0123456789ab',
        node: 'worker-1',
        by: 'uid 0',
        why: 'no power',
        until: NOON,
        from: 'worker-5',
        passedOnBy: 'worker-5',
      },
      releasedBy: 'time',
    },
    {
      data: { id: '0123456789ab', node: LONG, by: LONG, why: WORDS, until: NOON, from: LONG, passedOnBy: LONG },
      releasedBy: 'time',
    },
  ],
  'fleet/failed': [
    { data: { node: 'worker-3', more: 0, why: 'rolled-back' }, releasedBy: 'event' },
    { data: { node: 'worker-3', more: 0, why: 'not-ready' }, releasedBy: 'event' },
    { data: { node: 'worker-3', more: 0, why: 'degraded' }, releasedBy: 'event' },
    { data: { node: LONG, more: 0, absent: LONG, why: 'silent' }, releasedBy: 'event' },
  ],
  'fleet/no-canary': [
    { data: { selector: 'spare', nodes: '' }, releasedBy: 'event' },
    { data: { selector: LONG, nodes: LONG }, releasedBy: 'event' },
  ],
  'fleet/not-ready': [
    { data: { node: 'worker-3', more: 2, phase: 'preloading', percent: 40 }, releasedBy: 'event' },
    { data: { node: 'worker-3', more: 0, isAway: true }, releasedBy: 'event' },
    { data: { node: LONG, more: 1_000_000, isAway: true, absent: LONG }, releasedBy: 'event' },
  ],
  'fleet/order': [
    { data: { node: 'worker-1', more: 0, phase: 'ready' }, releasedBy: 'event' },
    { data: { node: LONG, more: 0, phase: 'activated' }, releasedBy: 'event' },
  ],
  'fleet/soak': [
    { data: { node: 'worker-1', more: 0, phase: 'active', forMs: 3_600_000, out: 'worker-7' }, releasedBy: 'event' },
    { data: { node: LONG, more: 0, forMs: 3_600_000, absent: LONG, out: LONG }, releasedBy: 'event' },
  ],
  'fleet/settle': [
    { data: { node: 'worker-1', more: 0, phase: 'active', forMs: 120_000 }, releasedBy: 'event' },
    { data: { node: 'host-1', more: 0, phase: 'active', forMs: 120_000, isByKeys: true }, releasedBy: 'event' },
    { data: { node: LONG, more: 0, forMs: 120_000, absent: LONG, out: LONG }, releasedBy: 'event' },
  ],
  'fleet/unavailable': [
    { data: { node: 'worker-1', more: 0, why: 'not-ready', most: 1 }, releasedBy: 'event' },
    { data: { node: 'worker-1', more: 0, why: 'cordoned', most: 2 }, releasedBy: 'event' },
    { data: { node: LONG, more: 0, why: 'silent', most: 1_000_000, absent: LONG, out: LONG }, releasedBy: 'event' },
  ],
  'fleet/lock': [
    { data: { server: 'locks.example.com', why: 'all slots are locked (semaphore_full)' }, releasedBy: 'event' },
    { data: { server: `${LONG}.example.com`, why: LONG }, releasedBy: 'event' },
    { data: { server: 'locks.example.com', isUnknown: true }, releasedBy: 'event' },
  ],
  'fleet/cordoned': [
    { data: { node: 'worker-1' }, releasedBy: 'event' },
    { data: { node: LONG }, releasedBy: 'event' },
  ],
  hook: ['files', 'start', 'end', 'retry'].flatMap((state) => {
    const releasedBy = state === 'retry' ? 'time' : 'event';
    return [
      { data: { unit: 'before.service', state, attempts: 2, why: { kind: 'absent' } }, releasedBy },
      { data: { unit: `${LONG}.service`, state, attempts: 2, why: { kind: 'unasked', message: WORDS } }, releasedBy },
    ];
  }),
  'engine/pulls-from-elsewhere': [
    { data: { kind: 'found', image: 'quay.io/x/w:1', usedBy: 'Pod a, container c', more: 0 }, releasedBy: 'event' },
    { data: { kind: 'found', image: `quay.example.com/${LONG}:1`, usedBy: LONG, more: 3 }, releasedBy: 'event' },
    { data: { kind: 'unknown' }, releasedBy: 'event' },
  ],
};

/** One of them each. */
export const EVERY_HOLD = Object.entries(HOLDS).flatMap(([code, variants]) =>
  variants.map(({ data, releasedBy = 'person' }, index) => {
    const gate = code.startsWith('fleet/') ? 'fleet' : code;
    return { code, index, hold: { gate, code, data, releasedBy } as unknown as ActivationHold };
  }),
);

/** Without those of the longest names. */
export const USUAL_HOLDS = EVERY_HOLD.filter(({ hold }) => JSON.stringify(hold.data).length < 200);

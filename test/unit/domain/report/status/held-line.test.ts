import { describe, expect, it } from 'vitest';
import type { ActivationHold } from '../../../../../src/domain/gates/gates.ts';
import { PHASES } from '../../../../../src/domain/model/phase.ts';
import { heldLine } from '../../../../../src/domain/report/status/held-line.ts';
import {
  allListed,
  judge,
  NOON,
  observation,
  reachable,
  stored,
  verified,
} from '../../../../support/daemon/scenario.ts';

const LONG = 'x'.repeat(128);
const WORDS = 'because the migration of the database must run first, '.repeat(4);

/** Every hold that people see, with usual values and with the longest ones. */
const HOLDS: Readonly<Record<string, readonly { readonly data: object; readonly releasedBy?: string }[]>> = {
  'engine/denied': [{ data: {} }],
  'rule/from': [
    { data: { from: '>=4.13.0 <4.14.0', current: '4.12.9', isUnreadable: false } },
    { data: { from: LONG, current: LONG, isUnreadable: true, after: LONG }, releasedBy: 'event' },
  ],
  'rule/barrier': ['bundle', 'activation', 'proof'].flatMap((lacks) => [
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
  ],
  'engine/tag-of-other-stream': [
    { data: { tag: 'quay.io/x:1', stream: 'ocp', other: 'tools', holder: 'tools@1.0.0' } },
    { data: { tag: `quay.example.com/${LONG}:${LONG}`, stream: LONG, other: LONG, holder: `x@${LONG}` } },
  ],
  'fleet/unknown': [{ data: {}, releasedBy: 'event' }],
  'fleet/not-ready': [
    { data: { node: 'worker-3', more: 2, phase: 'preloading', percent: 40 }, releasedBy: 'event' },
    { data: { node: LONG, more: 1_000_000, absent: LONG }, releasedBy: 'event' },
  ],
  'fleet/order': [
    { data: { node: 'worker-1', more: 0, phase: 'ready' }, releasedBy: 'event' },
    { data: { node: LONG, more: 0, phase: 'activated' }, releasedBy: 'event' },
  ],
  hook: ['files', 'start', 'end', 'retry'].flatMap((state) => [
    { data: { unit: 'before.service', state, attempts: 2, failure: 'absent' }, releasedBy: 'event' },
    { data: { unit: `${LONG}.service`, state, attempts: 2, failure: 'unasked', message: WORDS }, releasedBy: 'time' },
  ]),
  'engine/pulls-from-elsewhere': [
    { data: { kind: 'found', image: `quay.example.com/${LONG}:1`, usedBy: LONG, more: 3 }, releasedBy: 'event' },
    { data: { kind: 'unknown' }, releasedBy: 'event' },
  ],
  'x/unknown': [{ data: { value: WORDS } }],
};
const cases = Object.entries(HOLDS).flatMap(([code, variants]) =>
  variants.map(({ data, releasedBy = 'person' }, index) => ({ code, index, data, releasedBy })),
);

function entryOf(bundle = stored(verified(), { readyAt: NOON })) {
  const { first } = judge(observation({ runtime: reachable({ images: allListed(bundle) }) }), [bundle]);
  if (first === undefined) throw new TypeError('nothing was assessed');
  return { ...first, phase: 'ready', activationDue: true } as const;
}

describe('the line about a release that is ready and held', () => {
  it.each(cases)(
    '$code ($index) has at most 200 characters and says why in the first 80',
    ({ code, data, releasedBy }) => {
      const hold = { gate: code, code, data, releasedBy } as unknown as ActivationHold;
      const line = heldLine({ ...entryOf(), holds: [hold] }, []) ?? '';
      expect(line.length).toBeLessThanOrEqual(200);
      expect(line).toMatch(/^ocp 4\.13\.7 is not activated: \S.{9}/);
      expect(line).toMatch(/'stickpin (activate ocp@4\.13\.7|list)'/);
      expect(line).not.toContain('undefined');
    },
  );

  it.each(cases)('$code ($index) says that its stick may be removed', ({ code, data, releasedBy }) => {
    const hold = { gate: code, code, data, releasedBy } as unknown as ActivationHold;
    const entry = { ...entryOf(), media: ['sdb1'], holds: [hold] };
    const line = heldLine(entry, []) ?? '';
    expect(line.length).toBeLessThanOrEqual(200);
    expect(line).toContain(' You may remove the stick. ');
    expect(heldLine({ ...entry, isOnPeersOnly: true }, [])).not.toContain('stick.');
    expect(heldLine({ ...entry, media: [] }, [])).not.toContain('remove the stick');
  });

  it('keeps the reason in the first 80 characters and the command whole when names are long', () => {
    const version = `1.0.0-${'x'.repeat(120)}`;
    const bundle = stored(verified({ name: 'a'.repeat(63), version }), { readyAt: NOON });
    const hold = { gate: 'denied', code: 'engine/denied', data: {}, releasedBy: 'person' } as ActivationHold;
    const line = heldLine({ ...entryOf(bundle), holds: [hold] }, []) ?? '';
    expect(line.length).toBeLessThanOrEqual(200);
    expect(line.slice(0, 80)).toContain('not activated: it');
    expect(line).toMatch(/See 'stickpin list'\.$/);
  });

  it.each(PHASES.map(({ phase }) => phase).filter((phase) => phase !== 'ready'))(
    'is not shown for one that is %s',
    (phase) => {
      const hold = { gate: 'denied', code: 'engine/denied', data: {}, releasedBy: 'person' } as ActivationHold;
      expect(heldLine({ ...entryOf(), phase, holds: [hold] }, [])).toBeUndefined();
    },
  );
});

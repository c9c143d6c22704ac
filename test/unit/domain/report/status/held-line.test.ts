import { describe, expect, it } from 'vitest';
import type { ActivationHold } from '../../../../../src/domain/activation/gates.ts';
import { PHASES } from '../../../../../src/domain/model/condition.ts';
import { statusText } from '../../../../../src/domain/report/line.ts';
import { heldLine } from '../../../../../src/domain/report/status/bundle-lines.ts';
import { type StickUse, settled } from '../../../../../src/domain/report/status/stick-use.ts';
import {
  allListed,
  judge,
  NOON,
  observation,
  reachable,
  stored,
  verified,
} from '../../../../support/daemon/scenario.ts';
import { EVERY_HOLD } from '../../../../support/report/every-hold.ts';

function entryOf(bundle = stored(verified(), { readyAt: NOON })) {
  const { first } = judge(observation({ runtime: reachable({ images: allListed(bundle) }) }), [bundle]);
  if (first === undefined) throw new TypeError('nothing was assessed');
  return { ...first, phase: 'ready', activationDue: true } as const;
}

/** As STATUS has it; undefined where nothing is said of it. */
function lineOf(entry: Parameters<typeof heldLine>[0], use: StickUse = 'none'): string | undefined {
  const line = heldLine(entry, []);
  return line && statusText(settled(line, use));
}

const REPORTED = EVERY_HOLD.filter(({ hold }) => lineOf({ ...entryOf(), holds: [hold] }) !== undefined);

describe('the line about a release that is ready and held', () => {
  it.each(REPORTED)('$code ($index) has at most 200 characters and says why in the first 80', ({ hold }) => {
    const line = lineOf({ ...entryOf(), holds: [hold] }) ?? '';
    expect(line.length).toBeLessThanOrEqual(200);
    expect(line).toMatch(/^[A-Z ]+ \([AFH]-\d\d\): ocp 4\.13\.7 is loaded, not activated: \S/);
    expect(line).not.toContain('undefined');
  });

  it.each(REPORTED)('$code ($index) says that its stick may be removed, unless other nodes need it', ({ hold }) => {
    const entry = { ...entryOf(), media: ['sdb1'], holds: [hold] };
    const line = lineOf(entry, 'free') ?? '';
    expect(line.length).toBeLessThanOrEqual(200);
    expect(line).toMatch(/^(?:REMOVE THE STICK|PLUG IN ANOTHER STICK|DONE .*Remove the stick\.) /);
    expect(lineOf({ ...entry, isOnPeersOnly: true }, 'free')).not.toContain('REMOVE');
    expect(lineOf({ ...entry, media: [] }, 'free')).not.toContain('REMOVE');
    const needed = lineOf({ ...entry, neededBy: { loading: 2, all: 3 } }, 'in-use') ?? '';
    expect(needed).toMatch(/^LEAVE THE STICK IN .* 2 of 3 nodes still load from the stick\.(?: |$)/);
    expect(needed.length).toBeLessThanOrEqual(200);
  });

  it('keeps the reason in the first 80 characters, and has no half of a command, when names are long', () => {
    const version = `1.0.0-${'x'.repeat(120)}`;
    const bundle = stored(verified({ name: 'a'.repeat(63), version }), { readyAt: NOON });
    const hold = { gate: 'denied', code: 'engine/denied', data: {}, releasedBy: 'person' } as ActivationHold;
    const line = lineOf({ ...entryOf(bundle), holds: [hold] }) ?? '';
    expect(line.length).toBeLessThanOrEqual(200);
    expect(line.slice(0, 100)).toContain('not activated: it');
    expect(line).not.toContain("'");
  });

  it.each(PHASES.map(({ phase }) => phase).filter((phase) => phase !== 'ready'))(
    'is not shown for one that is %s',
    (phase) => {
      const hold = { gate: 'denied', code: 'engine/denied', data: {}, releasedBy: 'person' } as ActivationHold;
      expect(lineOf({ ...entryOf(), phase, holds: [hold] })).toBeUndefined();
    },
  );
});

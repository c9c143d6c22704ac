import { beforeEach, describe, expect, it } from 'vitest';
import type { RenderedMirrors } from '../../../../src/domain/model/image.ts';
import type { EffectContext } from '../../../../src/engine/effects/effect-context.ts';
import { applyMirrors } from '../../../../src/engine/effects/image-effects.ts';
import { createMirrorGate, type GateEnd, type MirrorGate } from '../../../../src/engine/tasks/mirror-gate.ts';
import { AppError } from '../../../../src/platform/app-error.ts';
import { digestOf } from '../../../../src/platform/digest.ts';
import { createVirtualClock, type VirtualClock } from '../../../support/fake-ports.ts';

const late = (...repositories: readonly string[]): RenderedMirrors => ({ repositories, takeEffect: 'late' });
const never = new AbortController().signal;

let clock: VirtualClock;
let gate: MirrorGate;
/** Repositories that the runtime was asked to pull from, in order. */
let probes: string[];
let digests: Set<string>;
/** Repositories whose mirror is in force. */
let inForce: Set<string>;
/** How a probe ends that our registry does not see, or answers 404. */
let ending: (signal: AbortSignal) => Promise<void>;
let running: number;

const hangs = (signal: AbortSignal) =>
  new Promise<void>((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
const fails = (error: Error) => () => Promise.reject(error);

beforeEach(() => {
  const asked = new Map<string, number>();
  clock = createVirtualClock();
  probes = [];
  digests = new Set();
  inForce = new Set();
  running = 0;
  ending = fails(new Error('manifest unknown'));
  gate = createMirrorGate({
    clock,
    runtime: {
      pull: async (reference, signal) => {
        const [repository = '', digest = ''] = reference.split('@');
        probes.push(repository);
        digests.add(digest);
        if (inForce.has(repository)) asked.set(reference, 1);
        running += 1;
        try {
          await ending(signal);
        } finally {
          running -= 1;
        }
      },
    },
    probes: { offer: (repository, seed) => digestOf(`${repository} ${seed}`) },
    // Only the request counts: a registry that sends nothing was asked all the same.
    meter: {
      manifestRequests: (repository, digest) => asked.get(`${repository}@${digest}`) ?? 0,
      manifestsSent: () => 0,
    },
  });
});

/** Goes to the gate, and shows how it ended so far. */
const pass = (repository: string, mirrors: RenderedMirrors, signal = never) => {
  const shown: { end: GateEnd | 'waits' | Error } = { end: 'waits' };
  gate.pass(repository, mirrors, signal).then(
    (end) => {
      shown.end = end;
    },
    (error: Error) => {
      shown.end = error;
    },
  );
  return shown;
};

describe('the mirror gate', () => {
  it('is open where mirrors take effect at once', async () => {
    expect(await gate.pass('a', { repositories: ['a'], takeEffect: 'at-once' }, never)).toBe('open');
    expect(probes).toEqual([]);
  });

  it('opens when the runtime asks our registry, and probes once for all mirrors that were written together', async () => {
    const first = pass('a', late('a', 'b'));
    const second = pass('b', late('a', 'b'));
    await clock.advance(1_000);
    expect([first.end, second.end]).toEqual(['waits', 'waits']);
    const before = probes.length;
    expect(before).toBeGreaterThan(2);
    expect(new Set(probes)).toEqual(new Set(['a']));
    expect(digests.size).toBe(before);
    inForce.add('a');
    await clock.advance(300);
    expect([first.end, second.end]).toEqual(['open', 'open']);
    expect(await gate.pass('b', late('a', 'b'), never)).toBe('open');
    expect(probes).toHaveLength(before + 1);
  });

  it('probes again soon, and then less and less often', async () => {
    const soon = pass('a', late('a'));
    await clock.advance(10);
    inForce.add('a');
    await clock.advance(15);
    expect(soon.end).toBe('open');
    probes.length = 0;
    pass('b', late('a', 'b'));
    await clock.advance(600);
    expect(probes).toHaveLength(5);
    await clock.advance(3_200);
    expect(probes).toHaveLength(15);
  });

  it('probes again for mirrors that are written later, with a new repository', async () => {
    inForce.add('a');
    pass('a', late('a'));
    await clock.advance(100);
    const next = pass('b', late('a', 'b'));
    await clock.advance(1_000);
    expect(next.end).toBe('waits');
    expect(await gate.pass('a', late('a', 'b'), never)).toBe('open');
    inForce.add('b');
    await clock.advance(300);
    expect(next.end).toBe('open');
  });

  it('probes again for a mirror that was removed meanwhile', async () => {
    inForce.add('a');
    pass('a', late('a'));
    await clock.advance(100);
    gate.written([]);
    inForce.delete('a');
    const again = pass('a', late('a'));
    await clock.advance(1_000);
    expect(again.end).toBe('waits');
  });

  it('counts a probe for the mirrors that were written with it or before, but not for later ones', async () => {
    gate.written(['a', 'b']);
    gate.written(['a', 'b', 'c']);
    inForce.add('a');
    pass('a', late('a', 'b', 'c'));
    await clock.advance(100);
    expect(['a', 'b', 'c'].map(gate.isProven)).toEqual([true, true, false]);
    gate.prove('c');
    expect(gate.isProven('c')).toBe(true);
    gate.written(['b', 'c']);
    expect(['a', 'b', 'c'].map(gate.isProven)).toEqual([false, true, true]);
  });

  it('does not count a time-out as a successful probe', async () => {
    pass('a', late('a'));
    await clock.advance(11_000);
    expect(gate.isProven('a')).toBe(false);
    expect(await gate.pass('a', late('a'), never)).toBe('open');
  });

  it('probes a runtime once that uses mirrors with its next pull or never', async () => {
    const bypassed = pass('a', { repositories: ['a', 'b'], takeEffect: 'next-pull' });
    await clock.advance(100);
    expect([bypassed.end, probes]).toEqual(['timed-out', ['a']]);
    expect(await gate.pass('b', { repositories: ['a', 'b'], takeEffect: 'next-pull' }, never)).toBe('open');
    inForce.add('c');
    const used = pass('c', { repositories: ['a', 'b', 'c'], takeEffect: 'next-pull' });
    await clock.advance(100);
    expect([used.end, probes, gate.isProven('c')]).toEqual(['open', ['a', 'c'], true]);
  });

  it('aborts a probe once our registry was asked, and an unanswered one after 2 s', async () => {
    ending = hangs;
    const waiting = pass('a', late('a'));
    await clock.advance(1_900);
    expect([probes.length, running]).toEqual([1, 1]);
    await clock.advance(500);
    expect([probes.length, running]).toEqual([2, 1]);
    inForce.add('a');
    await clock.advance(2_300);
    expect([waiting.end, running]).toEqual(['open', 0]);
  });

  it('reports a time-out once, and stays open from then on', async () => {
    const first = pass('a', late('a', 'b'));
    const second = pass('b', late('a', 'b'));
    await clock.advance(9_000);
    expect([first.end, second.end]).toEqual(['waits', 'waits']);
    await clock.advance(2_000);
    expect([first.end, second.end]).toEqual(['timed-out', 'open']);
    const before = probes.length;
    expect(await gate.pass('b', late('a', 'b'), never)).toBe('open');
    expect(probes).toHaveLength(before);
  });

  it('does not wait for a runtime that is away, and probes again when it is back', async () => {
    ending = fails(new AppError({ code: 'runtime/unreachable', message: 'gone', disposition: 'retry' }));
    const away = pass('a', late('a'));
    await clock.advance(100);
    expect(away.end).toBe('open');
    ending = fails(new Error('manifest unknown'));
    const back = pass('a', late('a'));
    await clock.advance(100);
    expect(back.end).toBe('waits');
  });

  it('continues with the next pull when the pull that probes is cancelled', async () => {
    ending = hangs;
    const stop = new AbortController();
    const first = pass('a', late('a', 'b'), stop.signal);
    const second = pass('b', late('a', 'b'));
    await clock.advance(100);
    stop.abort(new Error('cancelled'));
    await clock.advance(100);
    expect(first.end).toEqual(new Error('cancelled'));
    expect([second.end, probes, running]).toEqual(['waits', ['a', 'b'], 1]);
    inForce.add('b');
    ending = fails(new Error('manifest unknown'));
    await clock.advance(2_500);
    expect(second.end).toBe('open');
  });
});

it('learns of new mirrors before the runtime does, so that no proof of old ones counts for them', async () => {
  const calls: string[] = [];
  const context = {
    mirrorGate: { written: (repositories: readonly string[]) => calls.push(`gate ${repositories}`) },
    ports: { runtime: { applyMirrors: async () => void calls.push('runtime') } },
  } as unknown as EffectContext;
  await applyMirrors(context, { kind: 'apply-mirrors', repositories: ['quay.io/a'] }, never);
  expect(calls).toEqual(['gate quay.io/a', 'runtime']);
});

import { expect, it } from 'vitest';
import { countsSilence, Silence } from '../../../../src/fleet/peers/silence.ts';

const HOUR = 3_600_000;

function scene() {
  let nowMs = 0;
  const clock = { now: () => 1_000_000 + nowMs, monotonic: () => nowMs, sleep: async () => undefined };
  const silence = new Silence(HOUR, clock);
  const pass = (ms: number, isQuerying: boolean) => {
    nowMs += ms;
    silence.pass(['a', 'b'], isQuerying);
  };
  return { silence, pass };
}

it('counts silence only while nodes are asked', () => {
  const { silence, pass } = scene();
  pass(10 * HOUR, false);
  expect(silence.isAbsent('a')).toBe(false);
  pass(HOUR - 1, true);
  expect(silence.isAbsent('a')).toBe(false);
  pass(1, true);
  expect(silence.isAbsent('a')).toBe(true);
});

it('ends with a sign of life of that node', () => {
  const { silence, pass } = scene();
  pass(HOUR, true);
  silence.heard('a');
  expect([silence.isAbsent('a'), silence.isAbsent('b')]).toEqual([false, true]);
  expect([silence.seenAt('a'), silence.seenAt('b')]).toEqual([1_000_000 + HOUR, undefined]);
});

it('forgets nodes that left', () => {
  const { silence, pass } = scene();
  pass(HOUR, true);
  silence.pass(['a'], true);
  silence.pass(['a', 'b'], true);
  expect([silence.isAbsent('a'), silence.isAbsent('b')]).toEqual([true, false]);
});

it('ends when others say that the node lives, which is no sign of life that is shown', () => {
  const { silence, pass } = scene();
  pass(HOUR, true);
  silence.isAlive('a');
  expect([silence.isAbsent('a'), silence.silentMs('a'), silence.silentMs('b')]).toEqual([false, 0, HOUR]);
  expect([silence.seenAt('a'), silence.lastHeardMs()]).toEqual([undefined, undefined]);
  silence.heard('b');
  expect(silence.lastHeardMs()).toBe(HOUR);
});

it('takes a node for silent after 5 min, and after some rounds of a very large cluster', () => {
  const silentAfter = (count: number, absentMs = HOUR) => {
    let nowMs = 0;
    const clock = { now: () => nowMs, monotonic: () => nowMs, sleep: async () => undefined };
    const silence = new Silence(absentMs, clock);
    const nodes = Array.from({ length: count }, (_, at) => `n${at}`);
    silence.pass(nodes, true);
    while (!silence.isSilent('n0')) {
      nowMs += 15_000;
      silence.pass(nodes, true);
    }
    return nowMs / 60_000;
  };
  expect(silentAfter(3)).toBe(5);
  expect(silentAfter(500)).toBe(5);
  expect(silentAfter(5_000)).toBe(31.25);
  expect(silentAfter(5_000, HOUR / 60)).toBe(1);
});

const hearing = { isQuerying: true, hasIdentity: true, isApiComplete: true, lastHeardMs: undefined, nowMs: HOUR };

it.each([
  ['counts while the Kubernetes API shows all nodes', {}, true],
  ['counts while any node is heard', { isApiComplete: false, lastHeardMs: HOUR - 300_000 }, true],
  ['does not count while nobody is asked', { isQuerying: false }, false],
  ['does not count while this node can not prove who it is', { hasIdentity: false }, false],
  ['does not count while nobody at all was ever heard', { isApiComplete: false }, false],
  ['does not count while nobody at all is heard', { isApiComplete: false, lastHeardMs: HOUR - 300_001 }, false],
])('%s', (_what, over, counts) => {
  expect(countsSilence({ ...hearing, ...over })).toBe(counts);
});

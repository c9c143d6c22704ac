import { expect, it } from 'vitest';
import { Kubelets, Silence } from '../../../../src/fleet/peers/silence.ts';
import { NEVER_ABORTED } from '../../../../src/platform/async/abort.ts';
import { fixedCluster } from '../../../support/kubernetes/fixed-cluster.ts';

const MINUTE = 60_000;
const status = { version: 1, releases: [] } as const;

/** Nodes `b` and `c`; stickpin never told anything on `c`. `fleet.absent` is 1 h. */
function scene(isReady: (asked: number) => boolean) {
  let nowMs = 0;
  const clock = { now: () => nowMs, monotonic: () => nowMs, sleep: async () => undefined };
  const cluster = fixedCluster('a');
  cluster.set([
    { name: 'b', serves: [], status },
    { name: 'c', serves: [] },
  ]);
  const silence = new Silence(60 * MINUTE, clock);
  const asked: [node: string, minute: number][] = [];
  const ask = async (name: string) => {
    asked.push([name, nowMs / MINUTE]);
    return isReady(asked.length);
  };
  const kubelets = new Kubelets({ cluster, silence, isReady: ask, absentMs: 60 * MINUTE, clock });
  const pass = async (minutes: number) => {
    for (let minute = 0; minute < minutes; minute += 1) {
      nowMs += MINUTE;
      silence.pass(['b', 'c'], true);
      await kubelets.check(NEVER_ABORTED);
    }
  };
  return { silence, asked, pass };
}

it('keep a silent node from being absent whose kubelet lives', async () => {
  const { silence, asked, pass } = scene(() => true);
  await pass(120);
  expect([silence.isAbsent('b'), silence.isAbsent('c')]).toEqual([false, true]);
  expect(asked).toEqual([
    ['b', 30],
    ['b', 60],
    ['b', 90],
    ['b', 120],
  ]);
});

it('do not keep one whose kubelet is silent too, and bring it back when it lives again', async () => {
  const { silence, asked, pass } = scene((times) => times > 3);
  await pass(61);
  expect(silence.isAbsent('b')).toBe(true);
  await pass(5);
  expect(silence.isAbsent('b')).toBe(false);
  expect(asked.map(([, minute]) => minute)).toEqual([30, 42, 54, 66]);
});

it('are not asked about nodes that are heard', async () => {
  const { silence, asked, pass } = scene(() => false);
  for (let turn = 0; turn < 5; turn += 1) {
    await pass(29);
    silence.heard('b');
  }
  expect(asked).toEqual([]);
});

it('that can not be asked about keep nobody', async () => {
  const { silence, pass } = scene(() => {
    throw new Error('the API is away');
  });
  await pass(60);
  expect(silence.isAbsent('b')).toBe(true);
});

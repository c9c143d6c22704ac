import { beforeEach, describe, expect, it } from 'vitest';
import { PullChecker } from '../../../../src/engine/keepers/pull-checker.ts';
import type { Jobs } from '../../../../src/engine/tasks/jobs.ts';
import { AppError } from '../../../../src/platform/app-error.ts';
import { digestOf, referenceOf, stored, verified } from '../../../support/daemon/scenario.ts';
import { createVirtualClock, fakeContext, type VirtualClock } from '../../../support/fake-ports.ts';

const REFERENCE = referenceOf('etcd');
const release = stored(verified({ images: { etcd: ['base'] } }), { activatedAt: 1 });
const PROBE = digestOf('probe');
const TEST = { activation: 'now', reference: REFERENCE, attempts: 1 };

describe('the pull checker', () => {
  const { signal } = new AbortController();
  let clock: VirtualClock;
  let pull: (signal: AbortSignal) => Promise<void>;
  let pulls: string[];
  let isAsked: boolean;
  let isSent: boolean;
  let isPresent: boolean;
  let rounds: number;
  let proven: string[];
  let arePinsLost: boolean;
  let checker: PullChecker;
  let jobs: Jobs;
  beforeEach(() => {
    clock = createVirtualClock();
    [pulls, isAsked, isPresent, rounds] = [[], true, true, 0];
    isSent = true;
    proven = [];
    arePinsLost = false;
    pull = async () => undefined;
    let asked = 0;
    const image = { imageId: 'x', repoTags: [], repoDigests: [REFERENCE], pinned: true };
    const context = fakeContext({
      clock,
      meter: { manifestRequests: () => asked, manifestsSent: () => (isSent ? asked : 0) },
      probes: { offer: () => PROBE },
      wantRound: () => {
        rounds += 1;
      },
      runtime: {
        observe: async () => ({
          kind: 'reachable',
          name: 'fake 1',
          images: isPresent ? [image] : [],
          filesystem: undefined,
          renderedPins: [],
          renderedMirrors: ['quay.example.com/ocp/etcd'],
        }),
        image: async () => (isPresent ? image : undefined),
        pull: async (reference, inner) => {
          pulls.push(reference);
          if (isAsked) asked += 1;
          await pull(inner);
        },
      },
    });
    ({ jobs } = context);
    const { runtime, meter, probes, wantRound } = context;
    checker = new PullChecker(
      jobs,
      clock,
      runtime,
      meter,
      probes,
      wantRound,
      () => [release],
      () => arePinsLost,
      (repository) => void proven.push(repository),
    );
  });
  const ended = async () => {
    checker.start(TEST);
    expect(checker.checks().isRunning).toBe(true);
    await clock.advance(10_000);
    expect(checker.checks().isRunning).toBe(false);
    expect(rounds).toBe(1);
    return checker.checks().last?.end;
  };
  const fails = (code: string) => async () => {
    throw new AppError({ code, message: 'no', disposition: 'retry' });
  };

  it('pulls the image once, by digest, and says that our registry was asked', async () => {
    expect(await ended()).toEqual({ kind: 'answered' });
    expect(pulls).toEqual([REFERENCE]);
    expect(checker.checks().last).toMatchObject({ ...TEST, end: { kind: 'answered' } });
    expect(proven).toEqual(['quay.example.com/ocp/etcd']);
  });

  it.each([
    ['is answered', true, { kind: 'answered', isProbe: true }],
    ['is not asked for', false, expect.objectContaining({ kind: 'failed', isAsked: false })],
  ])('pulls a probe where a pull takes pins away, which %s', async (_how, asked, end) => {
    arePinsLost = true;
    isAsked = asked;
    pull = fails('runtime/not-found');
    expect(await ended()).toEqual(end);
    expect(pulls).toEqual([`quay.example.com/ocp/etcd@${PROBE}`]);
  });

  it('says that a probe was answered also when the runtime goes on to ask other registries', async () => {
    arePinsLost = true;
    pull = (inner) => new Promise((_resolve, reject) => inner.addEventListener('abort', () => reject(inner.reason)));
    expect(await ended()).toEqual({ kind: 'answered', isProbe: true });
  });

  it('lets a pull of an activation stand for the test of the same image, once and for a minute', async () => {
    checker.answered(REFERENCE);
    checker.start(TEST);
    expect(checker.checks()).toMatchObject({ isRunning: false, last: { ...TEST, end: { kind: 'answered' } } });
    expect([pulls, rounds]).toEqual([[], 1]);
    checker.start({ ...TEST, activation: 'later' });
    await clock.advance(0);
    expect(pulls).toEqual([REFERENCE]);
    checker.answered(REFERENCE);
    await clock.advance(61_000);
    checker.start(TEST);
    await clock.advance(0);
    expect(pulls).toHaveLength(2);
  });

  it('makes a test that is asked for, and one of another image, in any case', async () => {
    checker.answered(REFERENCE);
    await checker.checkNow(signal);
    checker.answered(referenceOf('api'));
    checker.start(TEST);
    await clock.advance(0);
    expect(pulls).toEqual([REFERENCE, REFERENCE]);
  });

  it('says when another registry answered', async () => {
    isAsked = false;
    expect(await ended()).toEqual({ kind: 'not-asked' });
    expect(proven).toEqual([]);
  });

  it('says when our registry was asked and had no manifest to send, so that another one answered', async () => {
    isSent = false;
    expect(await ended()).toEqual({ kind: 'not-sent' });
    expect(proven).toEqual(['quay.example.com/ocp/etcd']);
  });

  it.each([
    [true, true],
    [true, false],
    [false, false],
  ])(
    'says why the pull failed, whether our registry was asked (%s) and sent the manifest (%s)',
    async (asked, sent) => {
      isAsked = asked;
      isSent = sent;
      pull = fails('runtime/not-found');
      const reason = { code: 'runtime/not-found', message: 'no' };
      expect(await ended()).toEqual({ kind: 'failed', isAsked: asked, isSent: sent, reason });
    },
  );

  it('reports a runtime that is away', async () => {
    pull = fails('runtime/unreachable');
    expect(await ended()).toMatchObject({ kind: 'runtime-away' });
  });

  it('waits 8 seconds for a pull that hangs, and aborts it', async () => {
    let aborted: AbortSignal | undefined;
    pull = (inner) => {
      aborted = inner;
      return new Promise(() => undefined);
    };
    expect(await ended()).toEqual({ kind: 'timed-out', afterMs: 8_000 });
    expect(aborted?.aborted).toBe(true);
  });

  it('pulls no image that is gone', async () => {
    isPresent = false;
    expect(await ended()).toEqual({ kind: 'image-gone' });
    await checker.checkNow(signal);
    expect(pulls).toEqual([]);
  });

  it('runs one test at a time: a second caller gets the result of the running test', async () => {
    let end: () => void = () => undefined;
    pull = () =>
      new Promise((resolve) => {
        end = resolve;
      });
    checker.start(TEST);
    checker.start(TEST);
    const asked = checker.checkNow(signal);
    await clock.advance(0);
    end();
    await asked;
    expect(pulls).toHaveLength(1);
    expect(checker.checks().last?.end).toEqual({ kind: 'answered' });
  });

  it('tests on request at any time', async () => {
    await ended();
    await checker.checkNow(signal);
    expect(pulls).toHaveLength(2);
  });

  it('lets a running test end within a second when it is stopped, since its pull took a pin away', async () => {
    let end: () => void = () => undefined;
    pull = (inner) =>
      new Promise((resolve) => {
        end = () => (inner.aborted ? undefined : resolve());
      });
    checker.start(TEST);
    await clock.advance(0);
    const stopped = jobs.stop();
    await clock.advance(900);
    end();
    await stopped;
    expect(checker.checks().last?.end).toEqual({ kind: 'answered' });
  });

  it('aborts a test that goes on for a second after it was stopped, and begins no other one', async () => {
    pull = () => new Promise(() => undefined);
    checker.start(TEST);
    await clock.advance(0);
    const stopped = jobs.stop();
    await clock.advance(1_000);
    await stopped;
    expect(checker.checks()).toEqual({ isRunning: false, last: undefined });
    checker.start(TEST);
    await expect(checker.checkNow(signal)).rejects.toMatchObject({ name: 'AbortError' });
    expect(pulls).toHaveLength(1);
  });
});

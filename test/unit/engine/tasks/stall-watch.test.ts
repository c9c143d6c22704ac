import { beforeEach, describe, expect, it } from 'vitest';
import { createStallWatch, type StallWatch } from '../../../../src/engine/tasks/stall-watch.ts';
import type { BlobFlow } from '../../../../src/ports/transfers.ts';
import { digestOf } from '../../../support/daemon/scenario.ts';
import { createVirtualClock, type VirtualClock } from '../../../support/fake-ports.ts';

interface Pull {
  flow: BlobFlow;
  isRequested: boolean;
  /** How it ended, if it did. */
  result: string | undefined;
  finish: () => void;
  fail: (reason: Error) => void;
  readonly controller: AbortController;
}

const idle: BlobFlow = { sentBytes: 0, opened: 0, open: 0, awaitingMedium: 0, awaitingRuntime: 0 };
let clock: VirtualClock;
let watch: StallWatch;
let pulls: Map<string, Pull>;

beforeEach(() => {
  clock = createVirtualClock();
  pulls = new Map();
  watch = createStallWatch({
    clock,
    stallMs: 90_000,
    meter: { flow: ([digest]) => pulls.get(digest ?? '')?.flow ?? idle },
  });
});

function start(name: string, flow: Partial<BlobFlow> = {}, isRequested = true, isPresent = false): Pull {
  const layer = digestOf(name);
  const pull: Pull = {
    flow: { ...idle, ...flow },
    isRequested,
    result: undefined,
    finish: () => undefined,
    fail: () => undefined,
    controller: new AbortController(),
  };
  pulls.set(layer, pull);
  const watched = { what: name, layers: [layer], isRequested: () => pull.isRequested, isPresent };
  void watch
    .guard(
      watched,
      pull.controller.signal,
      (signal) =>
        new Promise((resolve, reject) => {
          pull.finish = resolve;
          pull.fail = reject;
          signal.addEventListener('abort', () => reject(new Error('cancelled by the runtime client')));
        }),
    )
    .then(
      () => {
        pull.result = 'done';
      },
      (error: Error) => {
        pull.result = error.message;
      },
    );
  return pull;
}
const stalled = (name: string, cause: string) =>
  `the pull of ${name} has stalled: not a byte in 90 s, since ${cause}. It was interrupted`;

describe('stall watch', () => {
  it.each([
    ['the medium gives nothing', { open: 1, opened: 1 }, true],
    ['the medium gives nothing', { open: 2, opened: 2, awaitingMedium: 1 }, true],
    ['the runtime takes nothing', { open: 1, opened: 1, awaitingRuntime: 1 }, true],
    ['the runtime asks for nothing', {}, false],
  ])('cancels a pull when %s (%j)', async (cause, flow, isRequested) => {
    const pull = start('etcd', flow, isRequested);
    await clock.advance(89_000);
    expect(pull.result).toBeUndefined();
    await clock.advance(2_000);
    expect(pull.result).toBe(stalled('etcd', cause));
  });

  it.each([
    ['the transfer waits for its medium', { open: 1, opened: 1, awaitingMedium: 1 }],
    ['the runtime stores what it has got', { opened: 3 }],
  ])('waits without a limit while %s', async (_why, flow) => {
    const pull = start('etcd', flow);
    await clock.advance(3_600_000);
    expect(pull.result).toBeUndefined();
    pull.finish();
    await clock.advance(0);
    expect(pull.result).toBe('done');
  });

  it('resets with each byte and each new request', async () => {
    const pull = start('etcd', { open: 1, opened: 1 });
    for (let step = 1; step < 10; step += 1) {
      await clock.advance(80_000);
      pull.flow = step % 2 === 0 ? { ...pull.flow, sentBytes: step } : { ...pull.flow, opened: step + 1 };
    }
    expect(pull.result).toBeUndefined();
    await clock.advance(95_000);
    expect(pull.result).toBe(stalled('etcd', 'the medium gives nothing'));
  });

  it('continues counting when the medium is back but still delivers nothing', async () => {
    const pull = start('etcd', { open: 1, opened: 1 });
    await clock.advance(60_000);
    pull.flow = { ...pull.flow, awaitingMedium: 1 };
    await clock.advance(600_000);
    pull.flow = { ...pull.flow, awaitingMedium: 0 };
    await clock.advance(20_000);
    expect(pull.result).toBeUndefined();
    await clock.advance(15_000);
    expect(pull.result).toBe(stalled('etcd', 'the medium gives nothing'));
  });

  it('lets a runtime that stores one image keep the others waiting, but no medium', async () => {
    const storing = start('large', { opened: 4 });
    const unasked = start('etcd', {}, false);
    const untaken = start('api', { open: 1, opened: 1, awaitingRuntime: 1 });
    const unread = start('dns', { open: 1, opened: 1 });
    await clock.advance(600_000);
    expect([unasked, untaken, unread].map(({ result }) => result)).toEqual([
      undefined,
      undefined,
      stalled('dns', 'the medium gives nothing'),
    ]);
    storing.finish();
    await clock.advance(95_000);
    expect(unasked.result).toBe(stalled('etcd', 'the runtime asks for nothing'));
    expect(untaken.result).toBe(stalled('api', 'the runtime takes nothing'));
  });

  it('ends pulls of images that the runtime has, though it asked, once none is stored', async () => {
    const storing = start('large', { opened: 4 });
    const present = ['etcd', 'api'].map((name) => start(name, {}, true, true));
    await clock.advance(600_000);
    expect(present.map(({ result }) => result)).toEqual([undefined, undefined]);
    storing.finish();
    await clock.advance(95_000);
    expect(present.map(({ result }) => result)).toEqual(
      ['etcd', 'api'].map((name) => expect.stringMatching(`no answer to the pull of ${name} for 90 s.* tried again`)),
    );
  });

  it('throws what the pull throws, and what aborted it', async () => {
    const failed = start('etcd');
    failed.fail(new Error('no space'));
    const aborted = start('api');
    aborted.controller.abort(new Error('the daemon stops'));
    await clock.advance(0);
    expect([failed.result, aborted.result]).toEqual(['no space', 'the daemon stops']);
  });
});

import { describe, expect, it } from 'vitest';
import type { RuntimeObservation } from '../../../src/domain/model/image.ts';
import { createDetectedRuntime, type DetectedRuntime } from '../../../src/runtime/detected-runtime.ts';
import type { RuntimeAdapter } from '../../../src/runtime/runtime-adapter.ts';
import type { RuntimeCandidate } from '../../../src/runtime/runtimes.ts';

const signal = new AbortController().signal;
const MINUTE = 60_000;
let uptimeMs = 0;
const clock = { monotonic: () => uptimeMs };
const candidate = (title: string): DetectedRuntime => ({
  kind: 'containerd',
  title,
  socketPath: `/run/${title}.sock`,
  unitNames: [],
  trace: `/etc/${title}`,
  answers: true,
});

/** An adapter that tells its name, and whether it was closed. */
function fakeAdapter(name: string, answers: () => boolean) {
  const listeners = new Set<() => void>();
  const pulled: string[] = [];
  const mirrored: number[] = [];
  let isClosed = false;
  const reachable: RuntimeObservation = {
    kind: 'reachable',
    name,
    images: [],
    filesystem: undefined,
    renderedPins: [],
    renderedMirrors: [],
  };
  const adapter: RuntimeAdapter = {
    observe: async () => (answers() ? reachable : { kind: 'unreachable', reason: `${name} is away` }),
    storagePaths: async () => [`/${name}`],
    applyPins: async () => undefined,
    applyMirrors: async (mirrors) => void mirrored.push(mirrors.length),
    pull: async (reference) => void pulled.push(reference),
    image: async () => undefined,
    addTag: async () => false,
    removeTag: async () => undefined,
    containers: async () => [],
    containerImages: async () => [],
    removeContainer: async () => undefined,
    removeImage: async () => undefined,
    openContentCheck: () => ({ check: async () => ({ kind: 'absent', faults: [] }) }),
    forgetContent: async () => undefined,
    onChange: (listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    close: () => {
      isClosed = true;
    },
  };
  return {
    adapter,
    pulled,
    mirrored,
    isClosed: () => isClosed,
    tell: () => listeners.forEach((listener) => void listener()),
  };
}

function detected(found: () => DetectedRuntime, fakes: Readonly<Record<string, ReturnType<typeof fakeAdapter>>>) {
  const build = ({ title }: RuntimeCandidate) => {
    const fake = fakes[title];
    if (fake === undefined) throw new TypeError(`no adapter is called ${title}`);
    return fake.adapter;
  };
  return createDetectedRuntime(async () => found(), build, clock);
}

describe('the detection of the runtime', () => {
  it('says what to do while there is no runtime, and uses one that appears', async () => {
    let found: DetectedRuntime | undefined;
    const fake = fakeAdapter('a', () => true);
    const runtime = createDetectedRuntime(
      async () => found,
      () => fake.adapter,
      clock,
    );
    expect(await runtime.observe(signal)).toEqual({
      kind: 'unreachable',
      reason:
        'none of CRI-O, containerd, Docker and Podman was found at its usual socket (runtime.socket can name another)',
      isAbsent: true,
    });
    await expect(runtime.pull('x', signal)).rejects.toMatchObject({ code: 'runtime/unreachable' });
    found = candidate('a');
    expect(await runtime.observe(signal)).toMatchObject({ kind: 'reachable', name: 'a' });
    await runtime.pull('x', signal);
    expect(fake.pulled).toEqual(['x']);
  });

  it('keeps a runtime that is away for a while, and then changes to another one that answers', async () => {
    let isUp = true;
    let found = candidate('a');
    const fakes = { a: fakeAdapter('a', () => isUp), b: fakeAdapter('b', () => true) };
    const runtime = detected(() => found, fakes);
    await runtime.observe(signal);
    isUp = false;
    const away = { kind: 'unreachable', reason: 'a is away' };
    expect(await runtime.observe(signal)).toEqual(away);
    // The other one answers, but the first may only be restarting.
    found = candidate('b');
    uptimeMs += 9 * MINUTE;
    expect(await runtime.observe(signal)).toEqual(away);
    isUp = true;
    expect(await runtime.observe(signal)).toMatchObject({ name: 'a' });
    isUp = false;
    uptimeMs += 9 * MINUTE;
    expect(await runtime.observe(signal)).toEqual(away);
    // One that is only installed is nothing to change to.
    found = { ...candidate('b'), answers: false };
    uptimeMs += MINUTE;
    expect(await runtime.observe(signal)).toEqual(away);
    expect([fakes.a.isClosed(), fakes.a.mirrored]).toEqual([false, []]);
    found = candidate('b');
    expect(await runtime.observe(signal)).toMatchObject({ name: 'b' });
    expect(fakes.a.isClosed()).toBe(true);
    expect(fakes.a.mirrored).toEqual([0]);
    expect(fakes.b.mirrored).toEqual([]);
  });

  it('changes at once from one that has never answered', async () => {
    let found: DetectedRuntime = { ...candidate('a'), answers: false };
    const fakes = { a: fakeAdapter('a', () => false), b: fakeAdapter('b', () => false) };
    const runtime = detected(() => found, fakes);
    expect(await runtime.observe(signal)).toEqual({ kind: 'unreachable', reason: 'a is away' });
    found = { ...candidate('b'), answers: false };
    expect(await runtime.observe(signal)).toEqual({ kind: 'unreachable', reason: 'b is away' });
  });

  it('builds no adapter for a runtime that is found after it was closed', async () => {
    let find!: (found: DetectedRuntime) => void;
    const search = new Promise<DetectedRuntime>((resolve) => {
      find = resolve;
    });
    let built = 0;
    const runtime = createDetectedRuntime(
      () => search,
      () => {
        built += 1;
        return fakeAdapter('a', () => true).adapter;
      },
      clock,
    );
    const observation = runtime.observe(signal);
    runtime.close();
    find(candidate('a'));
    expect(await observation).toEqual({ kind: 'unreachable', reason: 'the daemon stops' });
    expect(built).toBe(0);
  });

  it('reports changes of the current runtime, and none of an earlier one', async () => {
    let isUp = true;
    let found = candidate('a');
    const fakes = { a: fakeAdapter('a', () => isUp), b: fakeAdapter('b', () => true) };
    const runtime = detected(() => found, fakes);
    let told = 0;
    runtime.onChange(() => {
      told += 1;
    });
    await runtime.observe(signal);
    fakes.a.tell();
    expect(told).toBe(1);
    isUp = false;
    found = candidate('b');
    uptimeMs += 10 * MINUTE;
    await runtime.observe(signal);
    fakes.a.tell();
    expect(told).toBe(1);
    fakes.b.tell();
    expect(told).toBe(2);
  });
});

import { describe, expect, it } from 'vitest';
import { createDetectedRuntime } from '../../../../src/app/daemon/runtime.ts';
import type { RuntimeObservation } from '../../../../src/domain/model/image/runtime-image.ts';
import type { RuntimeCandidate } from '../../../../src/runtime/detect.ts';
import type { RuntimeAdapter } from '../../../../src/runtime/runtime-adapter.ts';

const signal = new AbortController().signal;
const candidate = (title: string): RuntimeCandidate => ({
  kind: 'containerd',
  title,
  socketPath: `/run/${title}.sock`,
  unitNames: [],
  trace: `/etc/${title}`,
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
    applyPins: async () => undefined,
    applyMirrors: async (mirrors) => void mirrored.push(mirrors.length),
    pull: async (reference) => void pulled.push(reference),
    image: async () => undefined,
    addTag: async () => false,
    removeTag: async () => undefined,
    containers: async () => [],
    imagesAskedFor: async () => [],
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

describe('the detection of the runtime', () => {
  it('says what to do while there is no runtime, and uses one that appears', async () => {
    let found: RuntimeCandidate | undefined;
    const fake = fakeAdapter('a', () => true);
    const runtime = createDetectedRuntime(
      async () => found,
      () => fake.adapter,
    );
    expect(await runtime.observe(signal)).toMatchObject({
      kind: 'unreachable',
      reason: expect.stringContaining('runtime.socket'),
    });
    await expect(runtime.pull('x', signal)).rejects.toMatchObject({ code: 'runtime/unreachable' });
    found = candidate('a');
    expect(await runtime.observe(signal)).toMatchObject({ kind: 'reachable', name: 'a' });
    await runtime.pull('x', signal);
    expect(fake.pulled).toEqual(['x']);
  });

  it('keeps a runtime that is away for a while, and changes to another one that is found instead', async () => {
    let isUp = true;
    let found = candidate('a');
    const fakes = { a: fakeAdapter('a', () => isUp), b: fakeAdapter('b', () => true) };
    const runtime = createDetectedRuntime(
      async () => found,
      ({ title }) => fakes[title as 'a' | 'b'].adapter,
    );
    await runtime.observe(signal);
    isUp = false;
    expect(await runtime.observe(signal)).toEqual({ kind: 'unreachable', reason: 'a is away' });
    expect(fakes.a.isClosed()).toBe(false);
    found = candidate('b');
    expect(await runtime.observe(signal)).toMatchObject({ name: 'b' });
    expect(fakes.a.isClosed()).toBe(true);
    expect(fakes.a.mirrored).toEqual([0]);
    expect(fakes.b.mirrored).toEqual([]);
  });

  it('builds no adapter for a runtime that is found after it was closed', async () => {
    let find!: (found: RuntimeCandidate) => void;
    const search = new Promise<RuntimeCandidate>((resolve) => {
      find = resolve;
    });
    let built = 0;
    const runtime = createDetectedRuntime(
      () => search,
      () => {
        built += 1;
        return fakeAdapter('a', () => true).adapter;
      },
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
    const runtime = createDetectedRuntime(
      async () => found,
      ({ title }) => fakes[title as 'a' | 'b'].adapter,
    );
    let told = 0;
    runtime.onChange(() => {
      told += 1;
    });
    await runtime.observe(signal);
    fakes.a.tell();
    expect(told).toBe(1);
    isUp = false;
    found = candidate('b');
    await runtime.observe(signal);
    fakes.a.tell();
    expect(told).toBe(1);
    fakes.b.tell();
    expect(told).toBe(2);
  });
});

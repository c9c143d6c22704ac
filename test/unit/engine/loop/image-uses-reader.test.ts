import { describe, expect, it } from 'vitest';
import type { EngineDependencies } from '../../../../src/engine/context.ts';
import { ImageUsesReader } from '../../../../src/engine/loop/observe.ts';

const { signal } = new AbortController();

describe('what is read of the names of images that something needs', () => {
  const reader = (read: () => Promise<readonly string[]>) => {
    const state = { now: 0 };
    const context = {
      clock: { monotonic: () => state.now, sleep: () => new Promise(() => undefined) },
      store: { load: () => ({ bundles: [{}] }) },
      containers: { containerImages: async () => (await read()).map((image) => ({ image })) },
    };
    return { state, reader: new ImageUsesReader(context as unknown as EngineDependencies) };
  };
  const namesIn = async (one: ImageUsesReader) => ((await one.read(signal))?.uses ?? []).map(({ image }) => image);

  it('counts for a minute, and is read again at once after forget()', async () => {
    let image = 'pause:1';
    const { state, reader: one } = reader(async () => [image]);
    expect(await namesIn(one)).toEqual(['pause:1']);
    image = 'pause:2';
    state.now = 59_999;
    expect(await namesIn(one)).toEqual(['pause:1']);
    one.forget();
    expect(await namesIn(one)).toEqual(['pause:2']);
    image = 'pause:3';
    state.now = 120_000;
    expect(await namesIn(one)).toEqual(['pause:3']);
  });

  it('does not count when it was under way at forget()', async () => {
    const images = ['old', 'new'];
    let release: () => void = () => undefined;
    const { reader: one } = reader(async () => {
      const image = images.shift() ?? 'none';
      if (image === 'old') await new Promise<void>((resolve) => (release = resolve));
      return [image];
    });
    const early = namesIn(one);
    await new Promise((resolve) => setImmediate(resolve));
    one.forget();
    release();
    expect(await early).toEqual(['old']);
    expect(await namesIn(one)).toEqual(['new']);
  });
});

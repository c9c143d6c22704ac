import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { createReload, type Reload, type ReloadDependencies } from '../../../../src/runtime/crio/reload.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const { signal } = new AbortController();

describe('a reload that is owed', () => {
  const base = folderForEach();
  let markerPath: string;
  let reloads: number;
  beforeEach(() => {
    markerPath = join(base, 'run/crio-reload-owed');
    reloads = 0;
    text = '';
  });

  let text: string;
  const write = async () => {
    text += '.';
  };
  /** Changes what CRI-O reads. */
  const change = (reload: Reload, make: () => Promise<void> = write) => reload.change(async () => text, make);
  const create = (over: Partial<ReloadDependencies> = {}) =>
    createReload({
      markerPath,
      isStopping: () => false,
      reload: async () => {
        reloads += 1;
      },
      isWhole: async () => true,
      ...over,
    });

  it('is none at first', async () => {
    await create().run(signal);
    expect([reloads, existsSync(markerPath)]).toEqual([0, false]);
  });

  it('is on the disk before it is made, and not afterwards', async () => {
    const seen: boolean[] = [];
    const reload = create({
      reload: async () => {
        reloads += 1;
        seen.push(existsSync(markerPath));
      },
    });
    await change(reload);
    await reload.run(signal);
    await reload.run(signal);
    expect([seen, existsSync(markerPath)]).toEqual([[true], false]);
  });

  it('is made by the next one after a kill, once', async () => {
    await change(create());
    const next = create();
    await next.run(signal);
    await next.run(signal);
    expect(reloads).toBe(1);
    await create().run(signal);
    expect(reloads).toBe(1);
  });

  it('is made when it can not be seen whether one is owed', async () => {
    mkdirSync(markerPath, { recursive: true });
    await create().run(signal);
    expect(reloads).toBe(1);
  });

  it('stays owed when it fails, and while the runtime is being stopped', async () => {
    const failure = new Error('no');
    const failing = create({ reload: () => Promise.reject(failure) });
    await change(failing);
    await expect(failing.run(signal)).rejects.toBe(failure);
    await create({ isStopping: () => true }).run(signal);
    expect([reloads, existsSync(markerPath)]).toEqual([0, true]);
  });

  it('stays on the disk when a broken file stopped it, and is not repeated by the same daemon', async () => {
    const reload = create({ isWhole: async () => false });
    await change(reload);
    await reload.run(signal);
    await reload.run(signal);
    expect([reloads, existsSync(markerPath)]).toEqual([1, true]);
  });

  it('is none for a change that failed, unless the failure came after the change or an earlier mark is there', async () => {
    const fail = async () => {
      throw new Error('read-only');
    };
    const reload = create();
    await expect(change(reload, fail)).rejects.toThrow('read-only');
    await reload.run(signal);
    expect([reloads, existsSync(markerPath)]).toEqual([0, false]);
    await expect(
      change(reload, async () => {
        text = 'changed';
        await fail();
      }),
    ).rejects.toThrow('read-only');
    await reload.run(signal);
    expect([reloads, existsSync(markerPath)]).toEqual([1, false]);
    mkdirSync(join(base, 'run'), { recursive: true });
    writeFileSync(markerPath, '');
    const next = create();
    await expect(change(next, fail)).rejects.toThrow('read-only');
    await next.run(signal);
    await expect(change(next, fail)).rejects.toThrow('read-only');
    await next.run(signal);
    expect([reloads, existsSync(markerPath)]).toEqual([2, false]);
  });

  it('keeps a file from being changed when it can not be announced', async () => {
    writeFileSync(join(base, 'run'), 'a file');
    await expect(change(create())).rejects.toMatchObject({ code: 'runtime/write' });
    expect(text).toBe('');
  });
});

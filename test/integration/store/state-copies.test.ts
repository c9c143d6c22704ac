import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { OpenState } from '../../../src/store/database/open-state.ts';
import { NOON, verified } from '../../support/daemon/scenario.ts';
import { openSampleState } from '../../support/state/open-sample-state.ts';

const { signal } = new AbortController();
const bundle = verified();
const other = verified({ name: 'tools', version: '1.0.0' });
const event = (kind: string) => ({ at: NOON, kind, message: kind });

let folder: string;
let path: string;
let opened: OpenState | undefined;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'stickpin-store-'));
  path = join(folder, 'state.db');
});
afterEach(() => {
  opened?.close();
  rmSync(folder, { recursive: true, force: true });
});

function open(): OpenState {
  opened?.close();
  opened = openSampleState(path);
  return opened;
}

function lose(): void {
  opened?.close();
  opened = undefined;
  for (const suffix of ['', '-wal', '-shm']) rmSync(`${path}${suffix}`, { force: true });
}

/** One bundle in the older copy, two in the newer one. */
async function makeCopies(): Promise<void> {
  const { store } = open();
  store.adopt(bundle, event('bundleVerified'));
  await store.keepCopy(signal);
  store.adopt(other, event('bundleVerified'));
  await store.keepCopy(signal);
}
const names = () => (opened?.store.load().bundles ?? []).map(({ payload }) => payload.name);

describe('copies of the state database', () => {
  it('are two at most, readable by the owner only, and nothing half-written stays', async () => {
    await makeCopies();
    open().store.mark(bundle.bundleId, 'readyAt', event('bundleReady'));
    await opened?.store.keepCopy(signal);
    const copies = readdirSync(folder).filter((name) => name.startsWith('state.db.'));
    expect(copies.sort()).toEqual(['state.db.copy', 'state.db.copy-before']);
    expect(copies.map((name) => statSync(join(folder, name)).mode & 0o777)).toEqual([0o600, 0o600]);
  });

  it('are not written again without a change that must not be lost', async () => {
    await makeCopies();
    const before = statSync(`${path}.copy`).ino;
    opened?.store.append(event('later'));
    await opened?.store.keepCopy(signal);
    expect(statSync(`${path}.copy`).ino).toBe(before);
  });

  it('replace a missing database, and the loss names the copy', async () => {
    await makeCopies();
    lose();
    expect(open().loss).toMatch(
      /state\.db could not be used: it is gone\. stickpin goes on with its copy .*state\.db\.copy of 20/,
    );
    expect(names()).toEqual(['ocp', 'tools']);
    expect(existsSync(`${path}.new`)).toBe(false);
  });

  it.each<{ how: string; damage: () => void }>([
    { how: 'is gone', damage: () => rmSync(`${path}.copy`) },
    { how: 'is cut', damage: () => truncateSync(`${path}.copy`, 5_000) },
    { how: 'is empty', damage: () => truncateSync(`${path}.copy`, 0) },
    { how: 'is garbage', damage: () => writeFileSync(`${path}.copy`, 'garbage'.repeat(1_000)) },
  ])('the older one is used when the newer one $how', async ({ damage }) => {
    await makeCopies();
    lose();
    damage();
    expect(open().loss).toContain('state.db.copy-before of ');
    expect(names()).toEqual(['ocp']);
  });

  it('are ignored when they are all damaged or half-written: a new database is created', async () => {
    await makeCopies();
    lose();
    for (const suffix of ['', '-before', '.new']) writeFileSync(`${path}.copy${suffix}`, 'garbage'.repeat(1_000));
    expect(open().loss).toMatch(/goes on with a new one: all pins stay/);
    expect(names()).toEqual([]);
  });

  it('count as an earlier state when more was recorded since', async () => {
    await makeCopies();
    opened?.store.append(event('later'));
    const revision = opened?.store.load().age?.revision ?? 0;
    lose();
    expect(open().store.load().age?.revision).toBeLessThan(revision);
  });
});

import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { messageIds } from '../../../src/platform/message-ids.ts';
import type { OpenState } from '../../../src/store/database/open-state.ts';
import { NOON, verified } from '../../support/daemon/scenario.ts';
import { createRecordingLog } from '../../support/recording-log.ts';
import { type DamagedPart, damageDatabase } from '../../support/state/damage-database.ts';
import { openSampleState } from '../../support/state/open-sample-state.ts';

const { signal } = new AbortController();
const bundle = verified();
const event = (kind: string) => ({ at: NOON, kind, message: kind });

let folder: string;
let path: string;
let opened: OpenState[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'stickpin-store-'));
  path = join(folder, 'state.db');
  opened = [];
});
afterEach(() => {
  for (const state of opened) state.close();
  rmSync(folder, { recursive: true, force: true });
});

function open() {
  const log = createRecordingLog();
  const state = openSampleState(path, log);
  opened.push(state);
  return { ...state, log };
}

describe.each<DamagedPart>(['header', 'pages'])('a state database whose %s are damaged while it is in use', (part) => {
  const damaged = () => ({
    code: 'store/damaged',
    disposition: 'wait',
    message: expect.stringMatching(/state\.db is damaged: run 'systemctl restart stickpin'\. .*all pins stay\./),
  });

  it('refuses each change as damaged, in trouble() too, and logs it once', () => {
    const { store, log } = open();
    store.adopt(bundle, event('bundleVerified'));
    expect(store.trouble()).toBeUndefined();
    damageDatabase(path, part);
    for (let count = 0; count < 2; count += 1) {
      expect(() => store.append(event('later'))).toThrow(expect.objectContaining(damaged()));
    }
    expect(() => store.change(bundle.bundleId, { readyAt: NOON }, event('bundleReady'))).toThrow(
      expect.objectContaining(damaged()),
    );
    const { code, message } = damaged();
    expect(store.trouble()).toEqual({ code, message });
    expect(store.trouble()?.message).toContain(path);
    const told = log.lines.filter(({ fields }) => fields.messageId === messageIds.stateLost);
    expect(told).toEqual([{ level: 'error', message, fields: expect.anything() }]);
  });

  it('keeps using the values in memory', async () => {
    const { store } = open();
    store.adopt(bundle, event('bundleVerified'));
    damageDatabase(path, part);
    expect(() => store.change(bundle.bundleId, { readyAt: NOON }, event('bundleReady'))).toThrow();
    expect(store.load().bundles).toEqual([{ ...bundle, adoptedAt: NOON }]);
    await store.settled(signal);
  });

  it('reports damage also when the history is read', () => {
    const { store } = open();
    store.append(event('first'));
    damageDatabase(path, part);
    expect(() => store.events(undefined, 10)).toThrow(expect.objectContaining(damaged()));
    expect(store.trouble()?.code).toBe('store/damaged');
  });

  it('is renamed at the next start, which creates a new one', () => {
    const before = open();
    before.store.adopt(bundle, event('bundleVerified'));
    damageDatabase(path, part);
    expect(() => before.store.append(event('later'))).toThrow(expect.objectContaining(damaged()));
    before.close();
    opened = [];
    const after = open();
    expect(after.loss?.message).toMatch(/state\.db could not be used: .*all pins stay/);
    expect(readdirSync(folder).filter((name) => /^state\.db\.damaged-\w+$/.test(name))).toHaveLength(1);
    after.store.adopt(bundle, event('bundleVerified'));
    expect(after.store.trouble()).toBeUndefined();
    expect(after.store.load().bundles).toEqual([{ ...bundle, adoptedAt: NOON }]);
  });
});

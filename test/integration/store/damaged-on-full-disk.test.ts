import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { reviveBundle } from '../../../src/app/daemon/signed-bundles.ts';
import { type OpenState, openState } from '../../../src/store/database/open-state.ts';
import { NOON, verified } from '../../support/daemon/scenario.ts';
import { eventually } from '../../support/eventually.ts';
import { mounting, mountSmallDisk, type SmallDisk } from '../../support/files/small-disk.ts';
import { createRecordingLog } from '../../support/recording-log.ts';
import { have } from '../../support/requirements.ts';
import { damageDatabase } from '../../support/state/damage-database.ts';
import { loseMirror } from '../../support/state/lose-state.ts';

const { signal } = new AbortController();
const event = (kind: string) => ({ at: NOON, kind, message: kind });
const FAULTS = ['full', 'read-only'] as const;

describe.runIf(have('root', mounting)).each(FAULTS)('a database that is lost on a %s disk', (fault) => {
  let disk: SmallDisk;
  let path: string;
  let standbyDirectory: string;
  let opened: OpenState | undefined;

  beforeEach(async () => {
    disk = mountSmallDisk('tmpfs', 2 * 1024 * 1024);
    path = join(disk.path, 'state.db');
    standbyDirectory = mkdtempSync(join(tmpdir(), 'stickpin-standby-'));
    const { store } = open();
    store.adopt(verified(), event('bundleVerified'));
    await store.mirror(signal);
    close();
  });
  afterEach(() => {
    close();
    disk.dispose();
    rmSync(standbyDirectory, { recursive: true, force: true });
  });

  const open = () => {
    opened = openState({ path, standbyDirectory, revive: reviveBundle, log: createRecordingLog(), now: NOON });
    return opened;
  };
  const close = () => {
    opened?.close();
    opened = undefined;
  };
  const names = ({ store }: OpenState) => store.load().bundles.map(({ payload }) => payload.name);
  const noRoom = () => (fault === 'full' ? disk.fill() : disk.readOnly());
  const room = () => (fault === 'full' ? disk.free() : disk.writable());

  it.each<{ how: string; lose: () => void }>([
    { how: 'damaged', lose: () => damageDatabase(path, 'header') },
    { how: 'empty', lose: () => truncateSync(path, 0) },
    { how: 'gone', lose: () => rmSync(path) },
  ])('and $how is read from its mirror, and replaced with it once there is room', async ({ lose }) => {
    lose();
    noRoom();
    const state = open();
    expect(names(state)).toEqual(['ocp']);
    expect(state.loss?.message).toMatch(
      new RegExp(`^The state database ${path} could not be used: .*goes on with ${disk.path}/state\\.json of `),
    );
    expect(state.loss?.message).not.toContain(standbyDirectory);
    expect(() => state.store.append(event('later'))).toThrow(
      expect.objectContaining({ code: fault === 'full' ? 'store/no-space' : 'store/read-only' }),
    );
    room();
    await eventually(() => state.store.append(event('later')));
    expect(names(state)).toEqual(['ocp']);
  });

  it('and has no mirror is no first start', () => {
    loseMirror(disk.path);
    rmSync(path);
    writeFileSync(join(disk.path, 'status.json'), '');
    noRoom();
    expect(open().loss?.message).toMatch(
      new RegExp(`^The state database ${path} could not be used: it is (gone|empty)\\. `),
    );
  });
});

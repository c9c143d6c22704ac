import { cpSync, mkdtempSync, rmSync, statfsSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { OpenState } from '../../../src/store/database/open-state.ts';
import { NOON, verified } from '../../support/daemon/scenario.ts';
import { mounting, mountSmallDisk, type SmallDisk } from '../../support/files/small-disk.ts';
import { have } from '../../support/requirements.ts';
import { openSampleState } from '../../support/state/open-sample-state.ts';

const { signal } = new AbortController();
const event = (kind: string, sizeBytes = 0) => ({ at: NOON, kind, message: kind.padEnd(sizeBytes, 'x') });

describe.runIf(have('root', mounting))('a change that fails on a full disk', () => {
  let disk: SmallDisk;
  let path: string;
  let opened: OpenState;
  let killed: string;

  beforeEach(() => {
    disk = mountSmallDisk('tmpfs', 2 * 1024 * 1024);
    path = join(disk.path, 'state.db');
    opened = openSampleState(path);
    opened.store.adopt(verified(), event('bundleVerified'));
    killed = mkdtempSync(join(tmpdir(), 'stickpin-killed-'));
  });
  afterEach(() => {
    opened.close();
    disk.dispose();
    rmSync(killed, { recursive: true, force: true });
  });

  const fillTo = (leftBytes: number) => {
    const { bavail, bsize } = statfsSync(disk.path);
    writeFileSync(join(disk.path, '.filler'), Buffer.alloc(bavail * bsize - leftBytes));
  };
  const failToWrite = () =>
    expect(() => opened.store.append(event('big', 60_000))).toThrow(
      expect.objectContaining({ code: 'store/no-space' }),
    );
  const logBytes = () => statSync(`${path}-wal`).size;
  /** The files as a power cut leaves them. */
  const afterPowerCut = () => {
    for (const suffix of ['', '-wal']) cpSync(`${path}${suffix}`, join(killed, `state.db${suffix}`));
    const { store, loss, close } = openSampleState(join(killed, 'state.db'));
    const kinds = store.events(undefined, 10).map(({ kind }) => kind);
    close();
    return { loss, kinds };
  };

  it('is no damage after a power cut', () => {
    fillTo(24 * 1024);
    failToWrite();
    expect(afterPowerCut()).toEqual({ loss: undefined, kinds: ['bundleVerified'] });
  });

  it('is no damage either while the log has no room in the database, and when it has room again', async () => {
    opened.store.append(event('committed', 50_000));
    fillTo(24 * 1024);
    failToWrite();
    expect(logBytes()).toBeGreaterThan(50_000);
    expect(afterPowerCut()).toEqual({ loss: undefined, kinds: ['bundleVerified', 'committed'] });
    disk.free();
    await opened.store.settled(signal);
    opened.store.append(event('small'));
    expect(afterPowerCut()).toEqual({ loss: undefined, kinds: ['bundleVerified', 'committed', 'small'] });
  });
});

import { mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { messageIds } from '../../../../src/platform/message-ids.ts';
import { makeSampleBundle, type SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { sealState } from '../../../support/state/lose-state.ts';

const REFUSED = /^Another version of stickpin wrote .*Install that version again, or move state\.db and state\.json/;

describe.each([
  { which: 'an earlier version without a number', sql: 'PRAGMA application_id = 0', schema: 18 },
  { which: 'a newer version', sql: 'PRAGMA user_version = 2', schema: 2 },
])('a state of $which', ({ sql, schema }) => {
  let factory: string;
  let harness: DaemonHarness;
  let bundle: SampleBundle;
  let before: ReadonlyMap<string, Buffer>;

  beforeEach(async () => {
    factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
    harness = await createDaemonHarness();
    bundle = await makeSampleBundle({ dir: factory, keys: [harness.key] });
    await harness.start();
    harness.plug(bundle.path);
    await harness.until((report) => report.bundles[0]?.phase === 'activated' && report.operation === 'idle');
    await harness.stop();
    const database = new Database(statePath('state.db'));
    database.exec(sql);
    database.close();
    for (const name of ['state.json', 'state.json.before']) {
      sealState(statePath(name), (content) => ({ ...content, schema }));
    }
    before = filesOfState();
    await harness.start();
  });
  afterEach(async () => {
    await harness.dispose();
    rmSync(factory, { recursive: true, force: true });
  });
  const statePath = (name: string) => join(harness.settings.paths.state_dir, name);
  const filesOfState = () =>
    new Map(
      readdirSync(statePath(''))
        .filter((name) => /^state\.(db$|json)/.test(name))
        .map((name) => [name, readFileSync(statePath(name))]),
    );
  const pinned = async () => (await harness.images()).filter((image) => image.pinned).length;

  it('is refused in one line: pins, mirrors and files stay, and nothing is adopted or activated', async () => {
    const report = await harness.until(({ status }) => status.includes('Another version of stickpin wrote'));
    await harness.rounds(3);
    expect(report.bundles).toEqual([]);
    expect(report.stateProblems).toEqual([{ code: 'store/version', message: expect.stringMatching(REFUSED) }]);
    expect(await pinned()).toBe(2);
    expect(filesOfState()).toEqual(before);
    expect(readdirSync(statePath('blobs/bundles'))).not.toEqual([]);
    const told = harness.log.lines.filter(({ fields }) => fields.messageId === messageIds.stateLost);
    expect(told.map(({ message }) => message)).toEqual([expect.stringMatching(REFUSED)]);
    expect(() => harness.daemon().engine.reject({ bundle: bundle.bundleId })).toThrow(
      expect.objectContaining({ code: 'store/version' }),
    );
  });

  it('that a person moves away is lost at the next start, which rebuilds the release', async () => {
    await harness.stop();
    for (const name of before.keys()) renameSync(statePath(name), join(factory, name));
    await harness.start();
    await harness.until(({ bundles }) => bundles.some(({ phase }) => phase === 'activated'));
    expect(await pinned()).toBe(2);
  });
});

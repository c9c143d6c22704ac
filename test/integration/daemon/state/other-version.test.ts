import { mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { beforeEach, describe, expect, it } from 'vitest';
import { messageIds } from '../../../../src/platform/message-ids.ts';
import { makeSampleBundle, type SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { startContainerd } from '../../../support/daemon/runtimes/containerd.ts';
import { atEnd } from '../../../support/files/temporary-folder.ts';
import { have } from '../../../support/requirements.ts';
import { sealState } from '../../../support/state/lose-state.ts';

const REFUSED = /^Another version of stickpin wrote .*Install that version again, or move state\.db and state\.json/;

interface OtherVersion {
  readonly sql: string;
  readonly schema: number;
}

/** A daemon on a state that another version has written, with a release that it activated. */
class RefusedState {
  readonly factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
  before: ReadonlyMap<string, Buffer> = new Map();

  constructor(readonly harness: DaemonHarness) {
    atEnd(() => rmSync(this.factory, { recursive: true, force: true }));
  }

  async make({ sql, schema }: OtherVersion): Promise<SampleBundle> {
    const { harness } = this;
    const bundle = await makeSampleBundle({ dir: this.factory, keys: [harness.key] });
    await harness.start();
    harness.plug(bundle.path);
    await harness.until((report) => report.bundles[0]?.phase === 'activated' && report.operation === 'idle');
    await harness.stop();
    const database = new Database(this.path('state.db'));
    database.exec(sql);
    database.close();
    for (const name of ['state.json', 'state.json.before']) {
      sealState(this.path(name), (content) => ({ ...content, schema }));
    }
    this.before = this.files();
    await harness.start();
    return bundle;
  }

  readonly path = (name: string) => join(this.harness.settings.paths.state_dir, name);
  readonly files = () =>
    new Map(
      readdirSync(this.path(''))
        .filter((name) => /^state\.(db$|json)/.test(name))
        .map((name) => [name, readFileSync(this.path(name))]),
    );
  readonly pinned = async () => (await this.harness.images()).filter((image) => image.pinned).length;
  readonly refused = async () => {
    const report = await this.harness.until(({ status }) => status.includes('Another version of stickpin wrote'));
    await this.harness.rounds(3);
    return report;
  };
}

const NEWER: OtherVersion = { sql: 'PRAGMA user_version = 2', schema: 2 };

describe.each([
  { which: 'an earlier version without a number', sql: 'PRAGMA application_id = 0', schema: 18 },
  { which: 'a newer version', ...NEWER },
])('a state of $which', (version) => {
  let state: RefusedState;
  let bundle: SampleBundle;

  beforeEach(async () => {
    state = new RefusedState(await createDaemonHarness());
    bundle = await state.make(version);
  });

  it('is refused in one line: pins and files stay, nothing is adopted or activated, and no pull is answered', async () => {
    const { harness } = state;
    const report = await state.refused();
    expect(report.bundles).toEqual([]);
    expect(report.stateProblems).toEqual([{ code: 'store/version', message: expect.stringMatching(REFUSED) }]);
    expect(await state.pinned()).toBe(2);
    expect(state.files()).toEqual(state.before);
    expect(readdirSync(state.path('blobs/bundles'))).not.toEqual([]);
    expect(await harness.pullStatus(bundle.contents.images[0]?.tags[0] ?? '')).toBe(404);
    const told = harness.log.lines.filter(({ fields }) => fields.messageId === messageIds.stateLost);
    expect(told.map(({ message }) => message)).toEqual([expect.stringMatching(REFUSED)]);
    expect(() => harness.daemon().engine.commands.reject({ bundle: bundle.bundleId })).toThrow(
      expect.objectContaining({ code: 'store/version' }),
    );
  });

  it('that a person moves away is lost at the next start, which rebuilds the release', async () => {
    const { harness } = state;
    await harness.stop();
    for (const name of state.before.keys()) renameSync(state.path(name), join(state.factory, name));
    await harness.start();
    await harness.until(({ bundles }) => bundles.some(({ phase }) => phase === 'activated'));
    expect(await state.pinned()).toBe(2);
  });
});

it.runIf(have('root', 'mmdebstrap'))('a state of another version leaves mirrors as they are, too', async () => {
  const containerd = await startContainerd();
  atEnd(() => containerd.stop());
  const runtime = { kind: 'containerd', socket: containerd.socketPath } as const;
  const state = new RefusedState(
    await createDaemonHarness({
      settings: { runtime },
      keepsMirrors: true,
    }),
  );
  const hosts = () => readFileSync(join(containerd.certsDirectory, 'quay.example.com/hosts.toml'), 'utf8');
  await state.make(NEWER);
  const before = hosts();
  await state.refused();
  expect(hosts()).toBe(before);
  expect(await state.pinned()).toBe(2);
});

import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makeSampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage } from '../../../support/bundles/sample-image.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { eventually } from '../../../support/eventually.ts';

const TAG = 'quay.example.com/ocp/app:stable';

describe('a state database that is from before a rollback', () => {
  let factory: string;
  let harness: DaemonHarness;
  let earlier: string;
  /** The image of the release that is in force in the end. */
  let first: string | undefined;

  beforeEach(async () => {
    factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
    earlier = join(factory, 'earlier');
    harness = await createDaemonHarness();
    await harness.start();
    await activate('1.0.0', 1);
    first = await tagged();
    harness.daemon().engine.commands.prove({ bundle: 'ocp@1.0.0' });
    await activate('2.0.0', 2);
    await harness.daemon().engine.settled(AbortSignal.timeout(10_000));
    await harness.rounds(2);
    const database = new Database(statePath('state.db'), { readonly: true });
    database.prepare('VACUUM INTO ?').run(earlier);
    database.close();
    harness.daemon().engine.commands.rollback({ stream: 'ocp' });
    await eventually(async () => expect(await tagged()).toBe(first));
    await harness.rounds(2);
    await harness.stop();
    for (const suffix of ['', '-wal', '-shm']) rmSync(statePath(`state.db${suffix}`), { force: true });
  });
  afterEach(async () => {
    await harness.dispose();
    rmSync(factory, { recursive: true, force: true });
  });

  const statePath = (name: string) => join(harness.settings.paths.state_dir, name);
  async function activate(version: string, sequence: number): Promise<void> {
    const images = [{ reference: TAG, image: sampleImage({ seed: version }) }];
    const dir = join(factory, version);
    const { path } = await makeSampleBundle({ dir, keys: [harness.key], version, sequence, images });
    harness.plug(path);
    await harness.until(({ bundles }) => bundles.some((one) => one.version === version && one.phase === 'activated'));
    harness.unplug();
    await harness.until(({ media }) => media.every(({ bundles }) => bundles === 0));
  }
  const tagged = async () => (await harness.images()).find(({ repoTags }) => repoTags.includes(TAG))?.imageId;

  it('since a person put back a backup: what is in force is known from its mirror, and no tag moves', async () => {
    copyFileSync(earlier, statePath('state.db'));
    await harness.start();
    await harness.rounds(6);
    const reasons = harness.report().bundles.map(({ reason }) => reason?.message);
    expect(reasons).toContainEqual(expect.stringContaining('ocp 2.0.0 was rolled back to ocp 1.0.0 by hand'));
    expect(await tagged()).toBe(first);
    const lost = harness.report().stateProblems.map(({ message }) => message);
    expect(lost).toEqual([expect.stringMatching(/it is an earlier copy.* goes on with .*state\.json of /)]);
    const kinds = harness
      .daemon()
      .engine.history(undefined, 100)
      .map(({ kind }) => kind);
    expect(kinds).toEqual(expect.arrayContaining(['bundleActivated', 'stateLost']));
  });
});

import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { KEPT_RETIRED } from '../../../../src/domain/release/forgetting.ts';
import { makeSampleBundle, type SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage } from '../../../support/bundles/sample-image.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { verified } from '../../../support/daemon/scenario.ts';
import { openSampleState } from '../../../support/state/open-sample-state.ts';

describe('a node that has had many releases', () => {
  let factory: string;
  let harness: DaemonHarness;
  const made: SampleBundle[] = [];

  beforeEach(async () => {
    factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
    harness = await createDaemonHarness({ settings: { lifecycle: { keep: 1 } } });
    leaveLines(200);
    await harness.start();
  });
  afterEach(async () => {
    await harness.dispose();
    rmSync(factory, { recursive: true, force: true });
  });

  /** What so many releases of another stream leave. */
  function leaveLines(count: number): void {
    const { store, close } = openSampleState(statePath('state.db'));
    for (let sequence = 1; sequence <= count; sequence += 1) {
      const bundle = verified({ name: 'old', version: `0.9.${sequence}`, sequence });
      store.adopt(bundle, { at: sequence, kind: 'bundleVerified', message: 'adopted' });
      store.forget(bundle.bundleId, undefined);
    }
    expect(store.load().past).toHaveLength(count);
    close();
  }

  const statePath = (name: string) => join(harness.settings.paths.state_dir, name);
  const versions = () => harness.report().bundles.map(({ version }) => version);
  const countOf = (name: string) => readdirSync(statePath(name)).filter((one) => !one.startsWith('.')).length;
  const counts = () => [...['.', 'blobs/sha256', 'blobs/bundles'].map(countOf), versions().length];

  async function pass(sequence: number): Promise<void> {
    const version = `1.0.${sequence}`;
    const images = [{ reference: 'quay.example.com/ocp/app:stable', image: sampleImage({ seed: version }) }];
    const dir = join(factory, version);
    const bundle = await makeSampleBundle({ dir, keys: [harness.key], version, sequence, images });
    made.push(bundle);
    harness.plug(bundle.path);
    await harness.until(({ bundles }) => bundles.some((one) => one.version === version && one.phase === 'activated'));
    harness.daemon().engine.commands.prove({ bundle: `ocp@${version}` });
    harness.unplug();
    await harness.until(({ media }) => media.every(({ bundles }) => bundles === 0));
  }

  it('keeps the files and records of the present ones, and asks for the stick of an older one', async () => {
    const first = KEPT_RETIRED + 2;
    for (let sequence = 1; sequence <= first; sequence += 1) await pass(sequence);
    await harness.until(() => !versions().includes('1.0.1'));
    await harness.rounds(2);
    const few = counts();
    for (let sequence = first + 1; sequence <= first + 4; sequence += 1) await pass(sequence);
    await harness.until(() => !versions().includes('1.0.5'));
    await harness.rounds(2);
    expect(counts()).toEqual(few);
    // Both generations name the content of each that is listed, and its list of images.
    expect(countOf('state.parts')).toBeLessThanOrEqual(3 * versions().length);
    expect((await harness.images()).filter(({ pinned }) => pinned)).toHaveLength(1);

    await expect(async () => harness.daemon().engine.commands.activate({ bundle: 'ocp@1.0.1' })).rejects.toMatchObject({
      code: 'engine/not-ready',
      message: expect.stringMatching(/^ocp 1\.0\.1 can't be activated yet: it was retired on .*; plug in its stick$/),
    });
    const [stick] = made;
    harness.plug(stick?.path ?? '');
    const report = await harness.until(({ bundles }) => bundles.some(({ version }) => version === '1.0.1'));
    expect(report.bundles.find(({ version }) => version === '1.0.1')?.phase).toBe('retired');
    await harness.rounds(3);
    const proven = harness.report().bundles.filter(({ phase }) => phase === 'proven');
    expect(proven.map(({ version }) => version)).toEqual(['1.0.9']);
    harness.daemon().engine.commands.activate({ bundle: 'ocp@1.0.1', override: true });
    await harness.until(({ bundles }) => bundles.some((one) => one.version === '1.0.1' && one.phase === 'activated'));
  });
});

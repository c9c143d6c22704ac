import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Digest } from '../../../../src/domain/model/digest.ts';
import type { SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { ocpImages } from '../../../support/bundles/sample-bundle.ts';
import { sampleLayer } from '../../../support/bundles/sample-image.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { createStickGate, type StickGate } from '../../../support/daemon/stick-gate.ts';
import { eventually } from '../../../support/eventually.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { have } from '../../../support/requirements.ts';

const MIB = 1024 * 1024;

describe('interruptions', () => {
  let harness: DaemonHarness;
  let bundle: SampleBundle;
  let gate: StickGate;

  beforeEach(async () => {
    gate = createStickGate();
    harness = await createDaemonHarness({ watchBundle: gate.watchBundle });
    const base = sampleLayer({ seed: 'base', sizeBytes: 4 * MIB });
    bundle = await harness.make({
      images: ocpImages(['a', 'b', 'c'], { sizeBytes: 8 * MIB, below: [base] }),
    });
  });

  it('a daemon that is stopped during a preload continues at the same point after its restart, and its history has each mark once', async () => {
    await harness.start(bundle.path);
    await harness.until((report) => report.operation === 'preloading');
    await harness.restart();
    const done = await harness.until((report) => report.bundles[0]?.phase === 'activated');
    expect(done.bundles[0]?.images).toEqual({ total: 3, present: 3, pinned: 3 });
    await harness.restart();
    await harness.until((report) => report.bundles[0]?.phase === 'activated');
    const kinds = harness.history(undefined, 'ocp@4.13.7').map(({ kind }) => kind);
    const marks = ['bundleVerified', 'bundleReady', 'bundleActivated'];
    expect(kinds.filter((kind) => marks.includes(kind))).toEqual(marks);
  });

  it('a stick that is removed during a preload is reported; plugged in again, each image is pulled once and no pull failed', async () => {
    const own = bundle.images.find(({ reference }) => reference.includes('/c:'))?.image.layers.at(-1);
    gate.hold(own?.digest as Digest, 4 * MIB);
    await harness.start(bundle.path);
    await gate.reached();
    harness.unplug();
    const removed = await harness.until(({ status }) => status.includes('was taken out of'));
    expect(removed.status).toMatch(
      /: ocp 4\.13\.7 was taken out of \/.*\/stick while preloading \(\d\/3 images\)\. Put it back, or plug in its stick, to continue\.$/,
    );
    harness.plugAgain();
    gate.release();
    await harness.until((report) => report.bundles[0]?.phase === 'activated');
    const kinds = harness.history().map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind === 'imagePulled')).toHaveLength(3);
    expect(kinds).not.toContain('pullFailed');
  });
});

describe.runIf(have('root'))('a disk that is too small', () => {
  let harness: DaemonHarness;
  const factory = folderForEach();

  afterEach(async () => {
    await harness.dispose();
    execFileSync('umount', [join(factory, 'small')]);
  });

  it('is reported with the numbers, nothing is pulled, and it continues automatically when there is space', async () => {
    const small = join(factory, 'small');
    execFileSync('mkdir', [small]);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=20m', 'tmpfs', small]);
    harness = await createDaemonHarness({
      settings: { paths: { state_dir: small }, preload: { min_free_percent: 10 } },
    });
    const bundle = await harness.make({
      images: ocpImages(['big'], { sizeBytes: 24 * MIB }),
    });
    await harness.start(bundle.path);
    const held = await harness.until((report) => report.bundles[0]?.hold === 'space');
    expect(held.bundles[0]?.reason?.message).toMatch(
      /^Not enough space for ocp 4\.13\.7.*: needs 24 MiB, \d+ MiB free, 2 MiB \(10 %\) kept/,
    );
    expect(await harness.images()).toEqual([]);
    await eventually(() => expect(harness.log.kinds()).toContain('noSpace'));
    execFileSync('mount', ['-o', 'remount,size=80m', small]);
    harness.engine.kick();
    await harness.until((report) => report.bundles[0]?.phase === 'activated');
  });
});

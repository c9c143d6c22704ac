import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Digest } from '../../../../src/domain/model/digest.ts';
import { makeSampleBundle, type SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage, sampleLayer } from '../../../support/bundles/sample-image.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { createStickGate, type StickGate } from '../../../support/daemon/stick-gate.ts';
import { eventually } from '../../../support/eventually.ts';
import { have } from '../../../support/requirements.ts';

const MIB = 1024 * 1024;

describe('interruptions', () => {
  let harness: DaemonHarness;
  let factory: string;
  let bundle: SampleBundle;
  let gate: StickGate;

  beforeEach(async () => {
    factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
    gate = createStickGate();
    harness = await createDaemonHarness({ watchBundle: gate.watchBundle });
    const base = sampleLayer({ seed: 'base', sizeBytes: 4 * MIB });
    bundle = await makeSampleBundle({
      dir: factory,
      keys: [harness.key],
      images: ['a', 'b', 'c'].map((name) => ({
        reference: `quay.example.com/ocp/${name}:1.0.0`,
        image: sampleImage({ seed: name, layers: [base, sampleLayer({ seed: name, sizeBytes: 8 * MIB })] }),
      })),
    });
  });
  afterEach(async () => {
    await harness.dispose();
    rmSync(factory, { recursive: true, force: true });
  });

  it('a daemon that is stopped during a preload continues at the same point after its restart', async () => {
    await harness.start();
    harness.plug(bundle.path);
    await harness.until((report) => report.operation === 'preloading');
    await harness.stop();
    await harness.start();
    const done = await harness.until((report) => report.bundles[0]?.phase === 'activated');
    expect(done.bundles[0]?.images).toEqual({ total: 3, present: 3, pinned: 3 });
    expect(
      harness
        .daemon()
        .engine.history(undefined, 100)
        .filter(({ kind }) => kind === 'bundleReady'),
    ).toHaveLength(1);
  });

  it('a stick that is removed during a preload is reported; plugged in again, each image is pulled once and no pull failed', async () => {
    const own = bundle.images.find(({ reference }) => reference.includes('/c:'))?.image.layers.at(-1);
    gate.hold(own?.digest as Digest, 4 * MIB);
    await harness.start();
    harness.plug(bundle.path);
    await gate.reached();
    harness.unplug();
    const removed = await harness.until(({ status }) => status.includes('was taken out of'));
    expect(removed.status).toMatch(
      /^ocp 4\.13\.7 was taken out of \/.*\/stick while preloading \(\d\/3 images\)\. Put it back, or plug in its stick, to continue\.$/,
    );
    harness.plugAgain();
    gate.release();
    await harness.until((report) => report.bundles[0]?.phase === 'activated');
    const kinds = harness
      .daemon()
      .engine.history(undefined, 100)
      .map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind === 'imagePulled')).toHaveLength(3);
    expect(kinds).not.toContain('pullFailed');
  });

  it('the history has "ready" and "activated" once each, in this order', async () => {
    await harness.start();
    harness.plug(bundle.path);
    await harness.until((report) => report.bundles[0]?.phase === 'activated');
    await harness.stop();
    await harness.start();
    await harness.until((report) => report.bundles[0]?.phase === 'activated');
    const kinds = harness
      .daemon()
      .engine.history('ocp@4.13.7', 100)
      .map(({ kind }) => kind)
      .filter((kind) => ['bundleVerified', 'bundleReady', 'bundleActivated'].includes(kind));
    expect(kinds).toEqual(['bundleVerified', 'bundleReady', 'bundleActivated']);
  });
});

describe.runIf(have('root'))('a disk that is too small', () => {
  let harness: DaemonHarness;
  let factory: string;

  beforeEach(() => {
    factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
  });
  afterEach(async () => {
    await harness.dispose();
    execFileSync('umount', [join(factory, 'small')]);
    rmSync(factory, { recursive: true, force: true });
  });

  it('is reported with the numbers, nothing is pulled, and it continues automatically when there is space', async () => {
    const small = join(factory, 'small');
    execFileSync('mkdir', [small]);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=20m', 'tmpfs', small]);
    harness = await createDaemonHarness({ settings: { paths: { state_dir: small } } });
    const bundle = await makeSampleBundle({
      dir: factory,
      keys: [harness.key],
      images: [
        {
          reference: 'quay.example.com/ocp/big:1.0.0',
          image: sampleImage({ seed: 'big', layers: [sampleLayer({ seed: 'big', sizeBytes: 24 * MIB })] }),
        },
      ],
    });
    await harness.start();
    harness.plug(bundle.path);
    const held = await harness.until((report) => report.bundles[0]?.hold === 'space');
    expect(held.status).toMatch(/^Not enough space for ocp 4\.13\.7.*: needs 24 MiB, usable \d+ MiB/);
    expect(await harness.images()).toEqual([]);
    await eventually(() => expect(harness.log.kinds()).toContain('noSpace'));
    execFileSync('mount', ['-o', 'remount,size=80m', small]);
    harness.daemon().engine.kick();
    await harness.until((report) => report.bundles[0]?.phase === 'activated');
  });
});

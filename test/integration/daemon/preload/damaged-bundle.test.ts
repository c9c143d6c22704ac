import { cpSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { hexOf } from '../../../../src/domain/model/digest.ts';
import type { BundleReport, StatusReport } from '../../../../src/domain/report/status-schema.ts';
import { messageIds } from '../../../../src/platform/message-ids.ts';
import { makeSampleBundle, type SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage, sampleLayer } from '../../../support/bundles/sample-image.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';

/*
 * A stick with a damaged bundle is plugged in and taken out again, on a node where another release
 * is in use.
 */
describe('a damaged bundle whose stick was taken out', () => {
  let harness: DaemonHarness;
  let factory: string;
  let good: SampleBundle;
  let next: SampleBundle;

  const make = (version: string, sequence: number): Promise<SampleBundle> =>
    makeSampleBundle({
      dir: factory,
      keys: [harness.key],
      version,
      sequence,
      images: ['etcd', 'api'].map((name) => ({
        reference: `quay.example.com/ocp/${name}:${version}`,
        image: sampleImage({
          seed: `${name}-${version}`,
          layers: [sampleLayer({ seed: `${name}-${version}`, sizeBytes: 1024 * 1024 })],
        }),
      })),
    });

  beforeEach(async () => {
    factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
    harness = await createDaemonHarness();
    good = await make('4.13.6', 6);
    next = await make('4.13.7', 7);
  });
  afterEach(async () => {
    await harness.dispose();
    rmSync(factory, { recursive: true, force: true });
  });

  const of = (version: string) => (report: StatusReport) => report.bundles.find((one) => one.version === version);
  const when = (version: string, isIt: (bundle: BundleReport) => boolean) =>
    harness.until((report) => {
      const bundle = of(version)(report);
      return bundle !== undefined && isIt(bundle);
    });
  const noStick = ({ media }: StatusReport) => media.every(({ medium }) => !medium.endsWith('/stick'));
  const layerFile = () => {
    const digest = next.contents.layers[0]?.digest;
    if (digest === undefined) throw new Error('no layer');
    return join(harness.base, 'damaged', basename(next.path), 'blobs/sha256', hexOf(digest));
  };

  /**
   * Loads the good release, then shows the daemon a copy of the next one that `damage` has changed.
   */
  async function showDamaged(damage: (file: string) => void): Promise<void> {
    await harness.start();
    harness.plug(good.path);
    await when('4.13.6', ({ phase }) => phase === 'activated');
    harness.unplug();
    await harness.until(noStick);
    const copy = join(harness.base, 'damaged', basename(next.path));
    cpSync(next.path, copy, { recursive: true });
    damage(layerFile());
    harness.plug(copy);
    await when('4.13.7', ({ hold, images }) => hold === 'media' && images.present === 1);
    harness.unplug();
    await harness.until(noStick);
  }

  const expectSteppedBack = async () => {
    const engine = () => harness.daemon().engine.report();
    const codeOf = () => engine()?.bundles.find((one) => one.version === '4.13.7')?.reason?.code;
    await expect.poll(codeOf, { timeout: 60_000 }).toBe('engine/needs-copy');
    const report = engine() as StatusReport;
    expect(report.status).toBe(
      "Idle. ocp 4.13.6 activated (2 images present and pinned). ocp 4.13.7 needs an undamaged copy: see 'stickpin list'. Waiting for media.",
    );
    expect(of('4.13.7')(report)).toMatchObject({
      phase: 'held',
      hold: 'media',
      reason: {
        code: 'engine/needs-copy',
        message: expect.stringMatching(
          /^ocp 4\.13\.7 needs an undamaged copy\. Blob sha256:\w{12}… (was damaged|was cut short) on \S+stick\. .*Copy/,
        ),
      },
    });
    expect(report.bundles.map(({ reason }) => reason?.message).join()).not.toContain('Plug it in again');
  };

  it.each([
    [
      'damaged',
      (file: string) => {
        const bytes = readFileSync(file);
        bytes.writeUInt8(bytes.readUInt8(bytes.length >> 1) ^ 1, bytes.length >> 1);
        writeFileSync(file, bytes);
      },
    ],
    ['cut short', (file: string) => truncateSync(file, 1000)],
  ])(
    'with a %s blob is no longer the first in STATUS: the release in use is, also after a restart',
    async (_how, damage) => {
      await showDamaged(damage);
      await expectSteppedBack();
      await harness.stop();
      const before = harness.statuses.length;
      await harness.start();
      await expectSteppedBack();
      expect(harness.statuses.slice(before).join('\n')).not.toMatch(/Stick removed|taken out/);
    },
  );

  it('is named in the journal by the blob, its file, the medium and the image', async () => {
    await showDamaged((file) => {
      const bytes = readFileSync(file);
      bytes.writeUInt8(bytes.readUInt8(0) ^ 1, 0);
      writeFileSync(file, bytes);
    });
    const told = harness.log.lines.filter(({ fields }) => fields.messageId === messageIds.blobDamaged);
    const digest = next.contents.layers[0]?.digest;
    expect(told.map(({ fields }) => fields)).toMatchObject([
      {
        digest,
        file: `stickpin/${basename(next.path)}/blobs/${digest?.replace(':', '/')}`,
        medium: join(harness.base, 'stick'),
        image: next.contents.images[0]?.reference,
      },
    ]);
    const entry = readFileSync(new URL('../../../../systemd/stickpin.catalog', import.meta.url), 'utf8')
      .split(/^-- /m)
      .find((text) => text.startsWith(messageIds.blobDamaged));
    const named = [...(entry ?? '').matchAll(/@(\w+)@/g)].map(([, name = '']) => name.toLowerCase());
    expect(named.sort()).toEqual(['digest', 'file', 'image', 'medium']);
    expect(Object.keys(told[0]?.fields ?? {})).toEqual(expect.arrayContaining(named));
  });

  it('continues with an undamaged copy after a restart, and forgets the damage', async () => {
    await showDamaged((file) => truncateSync(file, 1000));
    await harness.stop();
    await harness.start();
    harness.plug(next.path);
    await when('4.13.7', ({ phase }) => phase === 'activated');
    await harness.stop();
    await harness.start();
    const report = await when('4.13.7', ({ phase }) => phase === 'activated');
    expect(JSON.stringify(report)).not.toContain('needs-copy');
  });
});

import { cpSync, readFileSync, truncateSync } from 'node:fs';
import { basename, join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { hexOf } from '../../../../src/domain/model/digest.ts';
import type { BundleReport, StatusReport } from '../../../../src/domain/report/status-schema.ts';
import { messageIds } from '../../../../src/platform/message-ids.ts';
import type { SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { ocpImages } from '../../../support/bundles/sample-bundle.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { flipByte } from '../../../support/files/flip-byte.ts';
import { coded } from '../../../support/matching.ts';

/*
 * A stick with a damaged bundle is plugged in and taken out again, on a node where another release
 * is in use.
 */
describe('a damaged bundle whose stick was taken out', () => {
  let harness: DaemonHarness;
  let good: SampleBundle;
  let next: SampleBundle;

  const make = (version: string, sequence: number): Promise<SampleBundle> =>
    harness.make({
      version,
      sequence,
      images: ocpImages(['etcd', 'api'], { tag: version, sizeBytes: 1024 * 1024 }),
    });

  beforeEach(async () => {
    harness = await createDaemonHarness();
    good = await make('4.13.6', 6);
    next = await make('4.13.7', 7);
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
    await harness.start(good.path);
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
    const engine = () => harness.engine.report();
    const codeOf = () => engine()?.bundles.find((one) => one.version === '4.13.7')?.reason?.code;
    await expect.poll(codeOf, { timeout: 60_000 }).toBe('engine/needs-copy');
    const expected =
      "PLUG IN ANOTHER STICK (M-12): ocp 4.13.7 needs an undamaged copy. See 'stickpin list'. ocp 4.13.6 activated (2 images present and pinned). Waiting for a stick.";
    await expect.poll(() => engine()?.status, { timeout: 60_000 }).toBe(expected);
    const report = engine() as StatusReport;
    expect(of('4.13.7')(report)).toMatchObject({
      phase: 'held',
      hold: 'media',
      reason: coded(
        'engine/needs-copy',
        /^ocp 4\.13\.7 needs an undamaged copy\. Blob sha256:\w{12}… (was damaged|was cut short) on \S+stick\. .*Copy/,
      ),
    });
    expect(report.bundles.map(({ reason }) => reason?.message).join()).not.toContain('Plug it in again');
  };

  it.each([
    ['damaged', flipByte],
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
    await showDamaged(flipByte);
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
    await harness.restart();
    harness.plug(next.path);
    await when('4.13.7', ({ phase }) => phase === 'activated');
    await harness.restart();
    const report = await when('4.13.7', ({ phase }) => phase === 'activated');
    expect(JSON.stringify(report)).not.toContain('needs-copy');
  });
});

import { createHash } from 'node:crypto';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { renderList } from '../../../../src/cli/output/render/render-status.ts';
import { hexOf } from '../../../../src/domain/model/digest.ts';
import { makeSampleBundle, type SampleBundle, sampleKey } from '../../../support/bundles/sample-bundle.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { eventually } from '../../../support/eventually.ts';
import { flipByte } from '../../../support/files/flip-byte.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const isActivated = (report: ReturnType<DaemonHarness['report']>) => report.bundles[0]?.phase === 'activated';

describe('bad input: a clear line, a running daemon, and the good stick works afterwards', () => {
  let harness: DaemonHarness;
  const factory = folderForEach();
  let bundle: SampleBundle;

  beforeEach(async () => {
    harness = await createDaemonHarness();
    bundle = await harness.make();
    await harness.start();
  });

  /** A copy of the good bundle with one thing changed. */
  function spoilt(change: (path: string) => void): string {
    const path = join(factory, 'spoilt', 'ocp-4.13.7-amd64');
    cpSync(bundle.path, path, { recursive: true });
    change(path);
    return path;
  }

  function blobPath(path: string, digest: string): string {
    return join(path, 'blobs/sha256', digest.slice('sha256:'.length));
  }

  /**
   * The bad stick is rejected in STATUS and in the log with all of `words`; then the good one is
   * taken.
   */
  async function expectRejection(path: string, words: readonly RegExp[]): Promise<void> {
    harness.plug(path);
    const report = await harness.until(({ rejected }) => rejected.length > 0);
    const line = report.status;
    expect(line).toMatch(/: Rejected /);
    const logged = harness.log.lines.filter((entry) => entry.level === 'warn').map((entry) => entry.message);
    for (const word of words) {
      expect(line).toMatch(word);
      expect(logged.some((message) => word.test(message))).toBe(true);
    }
    expect(report.bundles).toEqual([]);
    harness.unplug();
    await harness.until(({ rejected }) => rejected.length === 0);
    harness.plug(bundle.path);
    await harness.until(isActivated);
  }

  it('no key installed: says where the key belongs, and continues automatically once it is there', async () => {
    rmSync(join(harness.keysFolder, 'factory-2026.pub'));
    await expect.poll(() => harness.log.lines.some(({ message }) => /No key is trusted/.test(message))).toBe(true);
    expect(harness.log.kinds()).toContain('noKeys');
    const before = harness.log.kinds().length;
    harness.plug(bundle.path);
    const report = await harness.until(({ rejected }) => rejected.length > 0);
    expect(report.status).toContain(harness.keysFolder);
    expect(report.status).toMatch(/\.pub/);
    writeFileSync(join(harness.keysFolder, 'factory-2026.pub'), harness.key.publicPem, { mode: 0o644 });
    await harness.until(isActivated);
    expect(harness.log.kinds().slice(before)).toContain('keysChanged');
  });

  it('unknown key: names the key', async () => {
    const stranger = sampleKey('stranger');
    const foreign = await makeSampleBundle({ dir: join(factory, 'foreign'), keys: [stranger] });
    await expectRejection(foreign.path, [/unknown key [0-9a-f]{4}/]);
  });

  it('blob missing: held, names the blob, and continues with a stick that has it', async () => {
    const layer = bundle.contents.layers[0];
    harness.plug(spoilt((copy) => rmSync(blobPath(copy, layer?.digest ?? ''))));
    const report = await harness.until(({ bundles }) => bundles[0]?.hold === 'media');
    expect(report.status).toMatch(/^PLUG IN ANOTHER STICK \(M-11\): ocp 4\.13\.7 lacks 1 blob on /);
    expect(renderList(report)).toContain(String(layer?.digest).slice(0, 19));
    await eventually(() => expect(harness.log.kinds()).toContain('blobMissing'));
    harness.unplug();
    harness.plug(bundle.path);
    await harness.until(isActivated);
  });

  it('blob truncated: held, and named', async () => {
    const layer = bundle.contents.layers[0];
    harness.plug(spoilt((copy) => truncateSync(blobPath(copy, layer?.digest ?? ''), 100)));
    const report = await harness.until(({ bundles }) => bundles[0]?.hold === 'media');
    expect(report.status).toMatch(/^PLUG IN ANOTHER STICK \(M-12\): ocp 4\.13\.7 needs an undamaged copy\./);
    expect(renderList(report)).toContain(`${String(layer?.digest).slice(0, 19)}… was cut short`);
  });

  it('blob corrupt: no wrong image, the blob is named, the other images continue', async () => {
    const layer = bundle.contents.layers[0];
    harness.plug(spoilt((copy) => flipByte(blobPath(copy, layer?.digest ?? ''), -1)));
    const report = await harness.until(({ bundles }) => bundles[0]?.hold === 'media');
    expect(report.status).toMatch(/^PLUG IN ANOTHER STICK \(M-12\): .* needs an undamaged copy/);
    expect(renderList(report)).toContain(`Blob ${String(layer?.digest).slice(0, 19)}… was damaged on`);
    expect(report.bundles[0]?.images.present).toBe(1);
    expect(await harness.images()).toHaveLength(1);
    harness.unplug();
    harness.plug(bundle.path);
    await harness.until(isActivated);
  });

  it('an empty stick, and one with unrelated and hidden files: one line reports that there is no bundle', async () => {
    harness.plug();
    const empty = await harness.until(({ status }) => /carries no bundle/.test(status));
    expect(empty.status).toMatch(/^PLUG IN ANOTHER STICK \(M-01\)/);
    await eventually(() =>
      expect(harness.log.kinds()).toEqual(expect.arrayContaining(['mediumMounted', 'mediumEmpty'])),
    );
    harness.unplug();
    mkdirSync(join(harness.base, 'pocket/DCIM'), { recursive: true });
    writeFileSync(join(harness.base, 'pocket/DCIM/photo.jpg'), 'x');
    copyFileSync(join(bundle.path, 'bundle.dsse.json'), join(harness.base, 'pocket/._bundle.dsse.json'));
    harness.plugAgain();
    await harness.until(({ media }) => media.some((medium) => medium.medium.endsWith('stick')));
    expect(harness.report().rejected).toEqual([]);
  });

  it('a bundle for another architecture, and one with the sequence of another, are refused with the reason', async () => {
    const other = await makeSampleBundle({
      dir: join(factory, 'arch'),
      arch: 's390x',
      keys: [harness.key],
    });
    harness.plug(other.path);
    const report = await harness.until(({ rejected }) => rejected.length > 0);
    expect(report.status).toMatch(/made for s390x, and this node is amd64/);
    harness.unplug();
    harness.plug(bundle.path);
    await harness.until(isActivated);
    harness.unplug();
    const twin = await makeSampleBundle({ dir: join(factory, 'twin'), version: '4.13.9', keys: [harness.key] });
    harness.plug(twin.path);
    const refused = await harness.until(({ rejected }) => rejected.length > 0);
    expect(refused.status).toMatch(/same sequence 1/);
  });

  it('leaves no half-written file: each file in the image store has the digest in its name', async () => {
    harness.plug(bundle.path);
    await harness.until(isActivated);
    for (const layer of bundle.contents.layers) {
      const path = join(harness.base, 'state/images/blobs/sha256', hexOf(layer.digest));
      expect(existsSync(path)).toBe(true);
      expect(createHash('sha256').update(readFileSync(path)).digest('hex')).toBe(hexOf(layer.digest));
    }
  });
});

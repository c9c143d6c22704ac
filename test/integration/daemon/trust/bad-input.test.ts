import { createHash } from 'node:crypto';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { hexOf } from '../../../../src/domain/model/digest.ts';
import { makeSampleBundle, type SampleBundle, sampleKey } from '../../../support/bundles/sample-bundle.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { eventually } from '../../../support/eventually.ts';

const isActivated = (report: ReturnType<DaemonHarness['report']>) => report.bundles[0]?.phase === 'activated';

describe('bad input: a clear line, a running daemon, and the good stick works afterwards', () => {
  let harness: DaemonHarness;
  let factory: string;
  let bundle: SampleBundle;

  beforeEach(async () => {
    factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
    harness = await createDaemonHarness();
    bundle = await makeSampleBundle({ dir: factory, keys: [harness.key] });
    await harness.start();
  });
  afterEach(async () => {
    await harness.dispose();
    rmSync(factory, { recursive: true, force: true });
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
    expect(line).toMatch(/^Rejected /);
    expect(line).toMatch(/; see 'stickpin list'/);
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

  it('bad signature: a known key did not sign this payload', async () => {
    const path = spoilt((copy) => {
      const file = join(copy, 'bundle.dsse.json');
      const envelope = JSON.parse(readFileSync(file, 'utf8'));
      const payload = Buffer.from(envelope.payload, 'base64').toString('utf8').replace('4.13.7', '4.13.8');
      writeFileSync(file, JSON.stringify({ ...envelope, payload: Buffer.from(payload).toString('base64') }));
    });
    await expectRejection(path, [/signature/i, /factory-2026/]);
  });

  it.each([
    ['not JSON', 'this is not JSON'],
    ['empty', ''],
    ['not an envelope', '{"payload": 1}'],
  ])('malformed envelope: %s', async (_name, text) => {
    await expectRejection(
      spoilt((copy) => writeFileSync(join(copy, 'bundle.dsse.json'), text)),
      [/bundle\.dsse\.json/],
    );
  });

  it('an envelope over 1 MiB is not even parsed', async () => {
    await expectRejection(
      spoilt((copy) => truncateSync(join(copy, 'bundle.dsse.json'), 2 * 1024 * 1024)),
      [/bundle\.dsse\.json/, /1 MiB|1048576/],
    );
  });

  it('digest of index.json wrong', async () => {
    await expectRejection(
      spoilt((copy) => writeFileSync(join(copy, 'index.json'), `${readFileSync(join(copy, 'index.json'), 'utf8')} `)),
      [/index\.json/],
    );
  });

  it('digest of contents.json wrong', async () => {
    const { digest } = bundle.payload.contents;
    await expectRejection(
      spoilt((copy) => {
        const bytes = readFileSync(blobPath(copy, digest));
        bytes[10] = (bytes[10] ?? 0) ^ 1;
        writeFileSync(blobPath(copy, digest), bytes);
      }),
      [new RegExp(hexOf(digest).slice(0, 12))],
    );
  });

  it('blob missing: held, names the blob, and continues with a stick that has it', async () => {
    const layer = bundle.contents.layers[0];
    harness.plug(spoilt((copy) => rmSync(blobPath(copy, layer?.digest ?? ''))));
    const report = await harness.until(({ bundles }) => bundles[0]?.hold === 'media');
    expect(report.status).toContain(String(layer?.digest).slice(0, 19));
    expect(report.status).toMatch(/absent/);
    await eventually(() => expect(harness.log.kinds()).toContain('blobMissing'));
    harness.unplug();
    harness.plug(bundle.path);
    await harness.until(isActivated);
  });

  it('blob truncated: held, and named', async () => {
    const layer = bundle.contents.layers[0];
    harness.plug(spoilt((copy) => truncateSync(blobPath(copy, layer?.digest ?? ''), 100)));
    const report = await harness.until(({ bundles }) => bundles[0]?.hold === 'media');
    expect(report.status).toContain(String(layer?.digest).slice(0, 19));
    expect(report.status).toMatch(/truncated/);
  });

  it('blob corrupt: no wrong image, the blob is named, the other images continue', async () => {
    const layer = bundle.contents.layers[0];
    harness.plug(
      spoilt((copy) => {
        const path = blobPath(copy, layer?.digest ?? '');
        const bytes = readFileSync(path);
        const last = bytes.length - 1;
        bytes[last] = (bytes[last] ?? 0) ^ 0xff;
        writeFileSync(path, bytes);
      }),
    );
    const report = await harness.until(({ bundles }) => bundles[0]?.hold === 'media');
    expect(report.status).toContain(String(layer?.digest).slice(0, 19));
    expect(report.status).toMatch(/damaged/);
    expect(report.bundles[0]?.images.present).toBe(1);
    expect(await harness.images()).toHaveLength(1);
    harness.unplug();
    harness.plug(bundle.path);
    await harness.until(isActivated);
  });

  it('an empty stick, and one with unrelated and hidden files: one line reports that there is no bundle', async () => {
    harness.plug();
    const empty = await harness.until(({ status }) => /carries no bundle/.test(status));
    expect(empty.status).toMatch(/^Idle/);
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

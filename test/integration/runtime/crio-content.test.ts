import { readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { ExpectedImage } from '../../../src/domain/model/image.ts';
import { AppError } from '../../../src/platform/app-error.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { CriClient } from '../../../src/runtime/cri/cri-client.ts';
import { openContentCheck } from '../../../src/runtime/crio/storage/check-content.ts';
import { type SampleImage, sampleImage, sampleLayer } from '../../support/bundles/sample-image.ts';
import { type SourceAndDouble, startSourceAndDouble } from '../../support/crio-double/source-and-double.ts';
import { have } from '../../support/requirements.ts';
import { skopeoArgv, trixieRoot } from '../../support/rootfs/trixie-root.ts';

const signal = AbortSignal.timeout(600_000);

describe.runIf(have('root', 'mmdebstrap'))('the content of images in CRI-O', () => {
  let it_: SourceAndDouble;
  let cri: CriClient;
  let image: SampleImage;
  let expected: ExpectedImage;

  beforeAll(async () => {
    await trixieRoot();
  });
  beforeEach(async () => {
    it_ = await startSourceAndDouble({ skopeo: skopeoArgv() });
    cri = new CriClient({ socketPath: it_.double.socketPath });
    image = sampleImage({ seed: 'content', layers: ['a', 'b'].map((seed) => sampleLayer({ seed })) });
    it_.source.add('app/web', image, ['v1']);
    const reference = `quay.example.com/app/web@${image.top.digest}`;
    await it_.client.pullImage(reference);
    expected = { reference, documents: [], layers: [] };
  });
  afterEach(async () => {
    cri.close();
    await it_.stop();
  });

  const check = () => openContentCheck({ cri, clock: systemClock }).check(expected, () => undefined, signal);
  const storage = async () => join((await cri.imageFilesystemPath(signal)) ?? '', '..');
  const layers = async () =>
    JSON.parse(readFileSync(join(await storage(), 'vfs-layers/layers.json'), 'utf8')) as {
      id: string;
      parent?: string;
    }[];
  const folderOf = async (seed: string) => {
    const own = (await layers()).find(({ parent }) => (seed === 'a' ? parent === undefined : parent !== undefined));
    return join(await storage(), 'vfs/dir', own?.id ?? '');
  };
  const records = (what: unknown) => ({ kind: 'broken', faults: [{ kind: 'records', what }] });

  it('finds an image whole by its records, and one that is absent', async () => {
    expect(await check()).toEqual({ kind: 'whole', by: 'records' });
    await it_.client.removeImage(expected.reference);
    expect(await check()).toEqual({ kind: 'absent', faults: [] });
  });

  it('finds a file of a layer truncated or gone', async () => {
    truncateSync(join(await folderOf('b'), 'opt/b/file-1'), 0);
    expect(await check()).toEqual(
      records(expect.stringMatching(/^the file opt\/b\/file-1 of its layer .* truncated$/)),
    );
    rmSync(join(await folderOf('b'), 'opt/b'), { recursive: true });
    expect(await check()).toEqual(records(expect.stringMatching(/^the file opt\/b\/file-0 of its layer .* absent$/)));
  });

  it('finds the files of a layer gone', async () => {
    rmSync(await folderOf('a'), { recursive: true });
    expect(await check()).toEqual(records(expect.stringMatching(/^the files of its layer .* are gone$/)));
  });

  it('finds a layer without record, and one that was not written to the end', async () => {
    const file = join(await storage(), 'vfs-layers/layers.json');
    const all = await layers();
    writeFileSync(
      file,
      JSON.stringify(all.map((one) => ({ ...one, flags: { incomplete: one.parent !== undefined } }))),
    );
    expect(await check()).toEqual(records(expect.stringContaining('was not written to the end')));
    writeFileSync(file, '[]');
    expect(await check()).toEqual(records(expect.stringContaining('no record of its layer')));
  });

  it('finds damage by the name in the records while CRI-O has no answer for the image', async () => {
    const imageStatus = () =>
      Promise.reject(new AppError({ code: 'runtime/pull', message: 'layer not known', disposition: 'wait' }));
    const withoutAnswer = () =>
      openContentCheck({
        cri: { imageStatus, imageFilesystemPath: (inner) => cri.imageFilesystemPath(inner) },
        clock: systemClock,
      }).check(expected, () => undefined, signal);
    expect(await withoutAnswer()).toMatchObject({ kind: 'unknown', reason: { message: 'layer not known' } });
    rmSync(await folderOf('a'), { recursive: true });
    expect(await withoutAnswer()).toEqual(records(expect.stringMatching(/^the files of its layer .* are gone$/)));
  });

  it('finds a damaged document', async () => {
    const folder = join(await storage(), 'vfs-images', image.config.digest.slice('sha256:'.length));
    const [manifest = ''] = readdirSync(folder).filter((name) => name === 'manifest');
    writeFileSync(join(folder, manifest), '{}');
    expect(await check()).toEqual(records('its document manifest is damaged'));
  });

  it('says nothing of an image when the records can not be read', async () => {
    writeFileSync(join(await storage(), 'vfs-layers/layers.json'), '');
    expect(await check()).toMatchObject({ kind: 'unknown', reason: { code: 'runtime/config' } });
  });
});

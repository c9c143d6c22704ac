import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { CriClient } from '../../../src/runtime/cri/cri-client.ts';
import { type SampleImage, sampleImage, sampleLayer } from '../../support/bundles/sample-image.ts';
import { type Containerd, startContainerd } from '../../support/daemon/runtimes/containerd.ts';
import { have } from '../../support/requirements.ts';
import { type SourceRegistry, startSourceRegistry } from '../../support/source-registry.ts';

/*
 * What stickpin builds on is asked of the real containerd here, so that another version that
 * behaves otherwise is noticed.
 */

const token = '0123456789abcdef0123456789abcdef';
const registryName = 'quay.example.com';
const unstopped = new AbortController().signal;

describe.runIf(have('root', 'mmdebstrap'))('containerd', () => {
  let containerd: Containerd;
  let registry: SourceRegistry;
  let cri: CriClient;

  beforeAll(async () => {
    registry = await startSourceRegistry();
    containerd = await startContainerd();
    cri = new CriClient({ socketPath: containerd.socketPath });
  });

  afterAll(async () => {
    cri?.close();
    await containerd?.stop();
    await registry?.close();
  });

  beforeEach(async () => {
    registry.forget();
    await writeMirror();
  });

  const mirrorFile = () => join(containerd.certsDirectory, registryName, 'hosts.toml');

  const writeMirror = async (): Promise<void> => {
    await mkdir(dirname(mirrorFile()), { recursive: true });
    const host = `[host."http://${registry.host}/v2/${token}"]\ncapabilities = ["pull", "resolve"]\noverride_path = true\n`;
    await writeFile(mirrorFile(), `server = "https://${registryName}"\n${host}`);
  };

  /**
   * Serves the image below the token, as stickpin's own registry does, and returns its reference by
   * digest at its home.
   */
  const offer = (repository: string, image: SampleImage, tags: readonly string[] = []): string => {
    registry.add(`${token}/${repository}`, image, tags);
    return `${registryName}/${repository}@${image.top.digest}`;
  };

  const pinned = async (reference: string) => (await cri.imageStatus(reference, unstopped))?.pinned;

  /** CRI reads labels from its own list of images, which follows the events of the image store. */
  const expectPinned = (reference: string, wanted: boolean) =>
    expect.poll(() => pinned(reference), { timeout: 10_000 }).toBe(wanted);

  const pin = (reference: string) => containerd.ctr('images', 'label', reference, 'io.cri-containerd.pinned=pinned');

  test('answers as the version that the facts were measured with', async () => {
    expect(await cri.version(unstopped)).toMatch(/^containerd 1\.7\./);
    const info = await cri.statusInfo(unstopped);
    expect(JSON.parse(info.config ?? '{}')).toMatchObject({ registry: { configPath: containerd.certsDirectory } });
  });

  test('reads hosts.toml at each pull, without a reload (docs/runtime-facts.md, fact 21)', async () => {
    const reference = offer('ocp/fresh', sampleImage({ seed: 'fresh' }));
    await writeFile(mirrorFile(), `server = "http://127.0.0.1:1"\n`);
    await expect(cri.pullImage(reference, unstopped)).rejects.toThrow();
    expect(registry.requests).toHaveLength(0);
    await writeMirror();
    await cri.pullImage(reference, unstopped);
    const blobs = registry.requests.filter(({ kind }) => kind === 'blob');
    expect(blobs.length).toBeGreaterThan(0);
    for (const { path } of blobs) {
      expect(path).toMatch(new RegExp(`^/v2/${token}/ocp/fresh/blobs/sha256:[0-9a-f]{64}$`));
    }
    expect((await cri.imageStatus(reference, unstopped))?.repoDigests).toEqual([reference]);
  });

  test('pins by label, and forgets the pin when the image is pulled again (docs/runtime-facts.md, fact 22)', async () => {
    const reference = offer('ocp/pinned', sampleImage({ seed: 'pinned' }));
    await cri.pullImage(reference, unstopped);
    expect(await pinned(reference)).toBe(false);
    await pin(reference);
    await expectPinned(reference, true);
    await cri.pullImage(reference, unstopped);
    await expectPinned(reference, false);
  });

  test('pulls an index of which only its own platform is there (docs/runtime-facts.md, fact 19)', async () => {
    const image = sampleImage({ seed: 'indexed', withIndex: true });
    const reference = offer('ocp/indexed', image);
    await cri.pullImage(reference, unstopped);
    expect((await cri.imageStatus(reference, unstopped))?.repoDigests).toContain(reference);
    const asked = new Set(registry.requests.map(({ digest, status }) => `${status} ${digest}`));
    expect(asked).toEqual(new Set(image.blobs.map(({ digest }) => `200 ${digest}`)));
  });

  test('keeps pins over a restart', async () => {
    const reference = offer('ocp/restarted', sampleImage({ seed: 'restarted' }));
    await cri.pullImage(reference, unstopped);
    await pin(reference);
    await containerd.restart();
    await expectPinned(reference, true);
  });

  test('removes every reference of an image at once (docs/runtime-facts.md, fact 22)', async () => {
    const image = sampleImage({ seed: 'many names' });
    const references = [offer('ocp/one', image), offer('ocp/two', image)];
    for (const reference of references) await cri.pullImage(reference, unstopped);
    expect((await cri.imageStatus(references[0] ?? '', unstopped))?.repoDigests.toSorted()).toEqual(references);
    await cri.removeImage(references[0] ?? '', unstopped);
    expect(await cri.imageStatus(references[1] ?? '', unstopped)).toBeUndefined();
  });

  test('fetches a layer once when two parallel pulls need it (docs/runtime-facts.md, fact 23)', async () => {
    const shared = sampleLayer({ seed: 'shared', sizeBytes: 8 * 1024 * 1024 });
    const references = ['a', 'b', 'c'].map((name) =>
      offer(`ocp/${name}`, sampleImage({ seed: name, layers: [shared, sampleLayer({ seed: `own ${name}` })] })),
    );
    registry.breakDown(shared.digest, { kind: 'stall', atByte: 1024 });
    const pulls = references.map((reference) => cri.pullImage(reference, unstopped));
    await expect.poll(() => registry.requests.filter(({ kind }) => kind === 'blob').length).toBeGreaterThanOrEqual(4);
    registry.mend(shared.digest);
    await Promise.all(pulls);
    expect(registry.getCount(shared.digest)).toBe(1);
  });

  test('continues a broken transfer from the byte where it broke (docs/runtime-facts.md, fact 24)', async () => {
    const layer = sampleLayer({ seed: 'broken', sizeBytes: 2 * 1024 * 1024 });
    const reference = offer('ocp/broken', sampleImage({ seed: 'broken', layers: [layer] }));
    registry.breakDown(layer.digest, { kind: 'break', atByte: 1024 * 1024 });
    await cri.pullImage(reference, unstopped);
    const ranges = registry.requests.filter(({ digest }) => digest === layer.digest).map(({ range }) => range);
    expect(ranges).toEqual([undefined, expect.stringMatching(/^bytes=[1-9][0-9]*-$/)]);
    expect(registry.bytesSent(layer.digest)).toBeLessThan(layer.sizeBytes + 512 * 1024);
  });

  test('refuses a blob with a wrong byte (docs/runtime-facts.md, fact 24)', async () => {
    const layer = sampleLayer({ seed: 'corrupt', sizeBytes: 256 * 1024 });
    const reference = offer('ocp/corrupt', sampleImage({ seed: 'corrupt', layers: [layer] }));
    registry.breakDown(layer.digest, { kind: 'corrupt', atByte: 100_000 });
    await expect(cri.pullImage(reference, unstopped)).rejects.toThrow('unexpected commit digest');
    expect(await cri.imageStatus(reference, unstopped)).toBeUndefined();
  });

  test('leaves nothing behind when it is stopped, and mounts nothing on the host', async () => {
    const other = await startContainerd({ snapshotter: 'native', withConfigPath: false });
    const directory = dirname(other.socketPath);
    expect(await readFile(other.configFile, 'utf8')).not.toContain('config_path');
    expect(await readFile('/proc/self/mounts', 'utf8')).not.toContain(directory);
    await other.stop();
    expect(existsSync(directory)).toBe(false);
  });
});

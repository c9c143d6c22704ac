import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type CreatedBundle, createBundle } from '../../../src/factory/create-bundle.ts';
import { sampleCreateOptions } from '../../support/bundles/create-options.ts';
import {
  digestOf,
  indexOver,
  layerOfTar,
  type SampleImage,
  sampleImage,
  seededBytes,
  writeOciLayout,
} from '../../support/bundles/sample-image.ts';
import { tarArchive } from '../../support/bundles/tar-archive.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { coded } from '../../support/matching.ts';
import { have } from '../../support/requirements.ts';

const { signal } = new AbortController();
const root = folderForEach();
let layout: string;
beforeEach(() => {
  layout = join(root, 'layout');
  // Without a policy of the machine: skopeo reads one below HOME first.
  mkdirSync(join(root, '.config', 'containers'), { recursive: true });
  writeFileSync(join(root, '.config', 'containers', 'policy.json'), '{"default":[{"type":"insecureAcceptAnything"}]}');
  vi.stubEnv('HOME', root);
});
afterEach(() => {
  vi.unstubAllEnvs();
});

function create(source: string): Promise<CreatedBundle> {
  const images = [`quay.example.com/x/app:1=${source}`];
  return createBundle(sampleCreateOptions(join(root, 'out', 'bundle'), images), signal);
}

function skopeo(...args: readonly string[]): void {
  execFileSync('skopeo', args, { stdio: 'pipe', timeout: 60_000 });
}

function blobNames({ path, payload }: CreatedBundle): string[] {
  const names = readdirSync(join(path, 'blobs', 'sha256'));
  return names.filter((name) => name !== payload.contents.digest.slice(7)).sort();
}

const namesOf = (...images: readonly SampleImage[]) =>
  [...new Set(images.flatMap(({ blobs }) => blobs.map(({ digest }) => digest.slice(7))))].sort();

describe.runIf(have('skopeo'))('images that skopeo reads from files', () => {
  const image = sampleImage({ seed: 'app', architecture: 'amd64' });

  it.each(['dir:', 'oci-archive:'])('keep their digests in %s', async (transport) => {
    writeOciLayout(layout, [{ image, names: ['app'] }]);
    skopeo('copy', '--preserve-digests', `oci:${layout}:app`, `${transport}${join(root, 'kept')}`);
    const made = await create(`${transport}${join(root, 'kept')}`);
    expect(made.contents.images.map(({ digest }) => digest)).toEqual([image.top.digest]);
    expect(blobNames(made)).toEqual(namesOf(image));
  });

  it('from a docker-archive have the digest that skopeo gives them, every time', async () => {
    writeOciLayout(layout, [{ image, names: ['app'] }]);
    const archive = `docker-archive:${join(root, 'app.tar')}`;
    skopeo('copy', `oci:${layout}:app`, `${archive}:quay.example.com/x/app:1`);
    const made = await create(archive);
    const raw = execFileSync('skopeo', ['inspect', '--raw', archive]);
    expect(made.contents.images.map(({ digest }) => digest)).toEqual([digestOf(raw)]);
    // Such an archive holds layers unpacked.
    expect(made.contents.layers.map(({ digest, diffId }) => [digest, diffId])).toEqual(
      image.layers.map(({ diffId }) => [diffId, diffId]),
    );
  });

  it.each(['dir:', 'oci-archive:'])(
    'of an index in %s: only the wanted platform travels, the index keeps its digest',
    async (transport) => {
      const arm = sampleImage({ seed: 'arm', architecture: 'arm64' });
      const index = indexOver({ arm64: arm, amd64: image });
      writeOciLayout(layout, [{ image: index, names: ['app'] }]);
      skopeo('copy', '--all', '--preserve-digests', `oci:${layout}:app`, `${transport}${join(root, 'kept')}`);
      const made = await create(`${transport}${join(root, 'kept')}`);
      expect(made.contents.images.map(({ digest }) => digest)).toEqual([index.top.digest]);
      expect(blobNames(made)).toEqual([...namesOf(image), index.top.digest.slice(7)].sort());

      // And skopeo finds the platform's image behind that index.
      const out = join(root, 'copied');
      skopeo('--override-arch', 'amd64', 'copy', `oci:${made.path}:quay.example.com/x/app:1`, `dir:${out}`);
      expect(digestOf(readFileSync(join(out, 'manifest.json')))).toBe(image.manifest.digest);
    },
  );

  it('of an index without the platform are refused', async () => {
    const index = indexOver({ arm64: sampleImage({ seed: 'arm', architecture: 'arm64' }) });
    writeOciLayout(layout, [{ image: index, names: ['app'] }]);
    skopeo('copy', '--all', `oci:${layout}:app`, `dir:${join(root, 'kept')}`);
    await expect(create(`dir:${join(root, 'kept')}`)).rejects.toThrow('has no image for linux/amd64');
  });

  it.each([
    ['dir:', 'nowhere'],
    ['oci-archive:', 'nowhere.tar'],
    ['docker-archive:', 'nowhere.tar'],
    ['no-such-transport:', 'x'],
  ])('are named when %s can not be read, and nothing is left', async (transport, name) => {
    await expect(create(`${transport}${join(root, name)}`)).rejects.toMatchObject(
      coded('bundle/skopeo', /^quay\.example\.com\/x\/app:1 from [^\n]*can't be fetched: [^\n]+$/),
    );
    expect(existsSync(join(root, 'out'))).toBe(false);
  });
});

describe.runIf(have('skopeo', 'root'))('images in containers-storage', () => {
  const storage = () => `containers-storage:[vfs@${join(root, 'storage')}+${join(root, 'run')}]`;
  const tar = tarArchive([{ path: 'f', bytes: seededBytes('f', 3000) }]);
  const plain = {
    ...layerOfTar(tar, (bytes) => bytes),
    mediaType: 'application/vnd.oci.image.layer.v1.tar',
  };

  it('keep their digests when they were built there', async () => {
    const image = sampleImage({ seed: 'built', architecture: 'amd64', layers: [plain] });
    writeOciLayout(layout, [{ image, names: ['app'] }]);
    skopeo('copy', `oci:${layout}:app`, `${storage()}quay.example.com/x/app:1`);
    const made = await create(`${storage()}quay.example.com/x/app:1`);
    expect(made.contents.images.map(({ digest }) => digest)).toEqual([image.top.digest]);
  });

  it('are refused when that would change their digests, and the line says what to do', async () => {
    writeOciLayout(layout, [{ image: sampleImage({ seed: 'pulled', architecture: 'amd64' }), names: ['app'] }]);
    skopeo('copy', `oci:${layout}:app`, `${storage()}quay.example.com/x/app:1`);
    await expect(create(`${storage()}quay.example.com/x/app:1`)).rejects.toMatchObject(
      coded('bundle/skopeo', /another digest; take it from its registry[^\n]*$/),
    );
    expect(existsSync(join(root, 'out'))).toBe(false);
  });
});

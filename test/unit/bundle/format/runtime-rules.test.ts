import { describe, expect, it } from 'vitest';
import {
  type ImageIndex,
  type IndexEntry,
  mediaTypes,
  parseManifest,
} from '../../../../src/bundle/format/oci-schema.ts';
import { isUnfitForAll, unfitIndex, unfitManifest, unfitText } from '../../../../src/bundle/format/runtime-rules.ts';
import type { Digest } from '../../../../src/domain/model/digest.ts';
import { oddImage, oddImages } from '../../../support/bundles/odd-images.ts';
import type { SampleImage } from '../../../support/bundles/sample-image.ts';

const unfit = ({ manifest }: SampleImage) =>
  unfitManifest(parseManifest(manifest.bytes, 'it', 'bundle/source'), manifest.mediaType);
const runtimesOf = (found: readonly { readonly runtimes: readonly string[] }[]) =>
  found.flatMap(({ runtimes }) => runtimes).sort();

describe('who can use an image', () => {
  it.each(oddImages)('of %s', (name, image, expected) => {
    const all = expected.flatMap((taker) => [
      taker,
      ...(taker.startsWith('CRI-O') ? [taker.replace('CRI-O', 'Podman')] : []),
    ]);
    expect(runtimesOf(unfit(oddImage(name, image)))).toEqual(all.sort());
  });

  it('is nobody where each runtime refuses something of it', () => {
    expect(isUnfitForAll(unfit(oddImage('x', { form: 'Docker', layers: ['x-gzip'] })))).toBe(true);
    expect(isUnfitForAll(unfit(oddImage('x', { form: 'OCI', config: 'Docker', layers: ['x-gzip'] })))).toBe(true);
    expect(isUnfitForAll(unfit(oddImage('x', { form: 'OCI', layers: ['x-gzip'] })))).toBe(false);
    expect(isUnfitForAll(unfit(oddImage('x', { form: 'Docker', layers: ['docker zstd'] })))).toBe(false);
    expect(isUnfitForAll([])).toBe(false);
  });

  it('is said with the reason and what to do', () => {
    const [zstd] = unfit(oddImage('x', { form: 'Docker', layers: ['docker zstd'] }));
    expect(zstd && unfitText(zstd)).toBe(
      "CRI-O (older), Podman (older) and containerd before 2.0 can't use it, since it is an image of the Docker form with a layer of the type application/vnd.docker.image.rootfs.diff.tar.zstd: build it again, as with docker buildx build --output type=registry,oci-mediatypes=true",
    );
    const [layer] = unfit(oddImage('x', { form: 'Docker', layers: ['oci gzip'] }));
    expect(layer && unfitText(layer)).toMatch(/^CRI-O and Podman can't use it, .*'ctr images convert --oci'/);
  });

  it.each([
    [125, []],
    [126, ['Docker']],
    [500, ['Docker']],
    [501, ['CRI-O', 'Docker', 'Podman', 'containerd']],
  ])('of %d layers', (count, expected) => {
    const [layer] = oddImage('x', { form: 'OCI', layers: ['oci gzip'] }).layers;
    const descriptor = { mediaType: layer?.mediaType ?? '', digest: layer?.digest as Digest, size: 1 };
    const config = { ...descriptor, mediaType: mediaTypes.ociConfig };
    const layers = Array.from({ length: count }, () => descriptor);
    const found = unfitManifest({ schemaVersion: 2, config, layers }, mediaTypes.ociManifest);
    expect(runtimesOf(found)).toEqual(expected);
  });

  it('is not CRI-O, Podman and Docker where a manifest of Docker does not say so', () => {
    const { mediaType: _, ...manifest } = parseManifest(
      oddImage('x', { form: 'Docker', layers: ['docker gzip'] }).manifest.bytes,
      'it',
      'bundle/source',
    );
    expect(runtimesOf(unfitManifest(manifest, mediaTypes.dockerManifest))).toEqual(['CRI-O', 'Docker', 'Podman']);
  });
});

describe('who can use an index', () => {
  const entry = (variant?: string, mediaType: string = mediaTypes.ociManifest): IndexEntry => ({
    mediaType,
    digest: `sha256:${'0'.repeat(64)}` as Digest,
    size: 1,
    platform: { os: 'linux', architecture: 'amd64', ...(variant !== undefined && { variant }) },
  });
  const of = (...manifests: IndexEntry[]): ImageIndex => ({ schemaVersion: 2, manifests });

  it.each([
    ['no variant', of(entry()), []],
    ['no variant beside others', of(entry('v3'), entry()), []],
    ['v1 alone', of(entry('v1')), ['CRI-O', 'Podman']],
    ['v1 and v2', of(entry('v1'), entry('v2')), ['CRI-O', 'Podman']],
    ['v2 and v3', of(entry('v2'), entry('v3')), ['CRI-O', 'Docker before 26', 'Podman', 'containerd']],
  ] as const)('with %s', (_name, index, expected) => {
    expect(runtimesOf(unfitIndex(index, 'amd64', index.manifests))).toEqual(expected);
    expect(unfitIndex(index, 'arm', [])).toEqual([]);
  });

  it('with an index in it', () => {
    const inner = entry(undefined, mediaTypes.ociIndex);
    const found = unfitIndex(of(inner), 'amd64', [inner]);
    expect(runtimesOf(found)).toEqual(['CRI-O', 'Docker before 26', 'Podman']);
    expect(unfitIndex(of(entry(), inner), 'amd64', [entry()])).toEqual([]);
  });
});

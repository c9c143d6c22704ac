import { gzipSync, zstdCompressSync } from 'node:zlib';
import { layerOfTar, type SampleImage, sampleImage } from './sample-image.ts';
import { tarArchive } from './tar-archive.ts';

const DOCKER = {
  manifest: 'application/vnd.docker.distribution.manifest.v2+json',
  config: 'application/vnd.docker.container.image.v1+json',
};
const OCI = {
  manifest: 'application/vnd.oci.image.manifest.v1+json',
  config: 'application/vnd.oci.image.config.v1+json',
};

/** Media types of layers, and how what they name is packed. */
const layerTypes = {
  'docker gzip': ['application/vnd.docker.image.rootfs.diff.tar.gzip', gzipSync],
  'docker tar': ['application/vnd.docker.image.rootfs.diff.tar', (tar: Buffer) => tar],
  'docker zstd': ['application/vnd.docker.image.rootfs.diff.tar.zstd', zstdCompressSync],
  'docker foreign': ['application/vnd.docker.image.rootfs.foreign.diff.tar.gzip', gzipSync],
  'oci gzip': ['application/vnd.oci.image.layer.v1.tar+gzip', gzipSync],
  'oci tar': ['application/vnd.oci.image.layer.v1.tar', (tar: Buffer) => tar],
  'oci zstd': ['application/vnd.oci.image.layer.v1.tar+zstd', zstdCompressSync],
  'oci nondistributable': ['application/vnd.oci.image.layer.nondistributable.v1.tar+gzip', gzipSync],
  'octet-stream': ['application/octet-stream', gzipSync],
  'x-gzip': ['application/x-gzip', gzipSync],
} as const satisfies Record<string, readonly [string, (tar: Buffer) => Buffer]>;

export type LayerKind = keyof typeof layerTypes;

export interface OddImage {
  readonly form: 'Docker' | 'OCI';
  /** Default: that of the form. */
  readonly config?: 'Docker' | 'OCI' | 'octet-stream';
  readonly layers: readonly LayerKind[];
}

/** An image of these media types. The same seed and types give the same image. */
export function oddImage(seed: string, { form, config = form, layers }: OddImage, architecture?: string): SampleImage {
  const types = form === 'Docker' ? DOCKER : OCI;
  const configs = { Docker: DOCKER.config, OCI: OCI.config, 'octet-stream': 'application/octet-stream' };
  return sampleImage({
    seed,
    ...(architecture !== undefined && { architecture }),
    types: { ...types, config: configs[config] },
    layers: layers.map((kind, at) => {
      const [mediaType, pack] = layerTypes[kind];
      const tar = tarArchive([{ path: `file-${at}`, bytes: Buffer.from(`${seed} ${at}`) }]);
      return { ...layerOfTar(tar, (bytes) => pack(bytes)), mediaType };
    }),
  });
}

type Taker = 'CRI-O' | 'CRI-O (older)' | 'containerd' | 'containerd before 2.0' | 'Docker';

/** Who can't use them, as measured. CRI-O stands for Podman, too. */
export const oddImages: readonly (readonly [name: string, image: OddImage, unfitFor: readonly Taker[]])[] = [
  ['an image of Docker', { form: 'Docker', layers: ['docker gzip', 'docker tar', 'docker foreign'] }, []],
  ['an image of OCI', { form: 'OCI', layers: ['oci gzip', 'oci tar', 'oci zstd', 'oci nondistributable'] }, []],
  ['layers of Docker in a manifest of OCI', { form: 'OCI', layers: ['oci gzip', 'docker gzip'] }, []],
  ['a config of OCI in a manifest of Docker', { form: 'Docker', config: 'OCI', layers: ['docker gzip'] }, []],
  ['no layers', { form: 'OCI', layers: [] }, []],
  ['zstd of Docker', { form: 'Docker', layers: ['docker zstd'] }, ['CRI-O (older)', 'containerd before 2.0']],
  [
    'gzip and zstd of Docker',
    { form: 'Docker', layers: ['docker gzip', 'docker zstd'] },
    ['CRI-O (older)', 'containerd before 2.0'],
  ],
  ['zstd of Docker in a manifest of OCI', { form: 'OCI', layers: ['docker zstd'] }, ['containerd before 2.0']],
  ['a layer of OCI in a manifest of Docker', { form: 'Docker', layers: ['docker gzip', 'oci gzip'] }, ['CRI-O']],
  ['octet-stream in a manifest of Docker', { form: 'Docker', layers: ['octet-stream'] }, ['CRI-O', 'containerd']],
  ['octet-stream in a manifest of OCI', { form: 'OCI', layers: ['oci gzip', 'octet-stream'] }, ['containerd']],
  ['x-gzip in a manifest of Docker', { form: 'Docker', layers: ['x-gzip'] }, ['CRI-O', 'containerd', 'Docker']],
  ['x-gzip in a manifest of OCI', { form: 'OCI', layers: ['x-gzip'] }, ['containerd', 'Docker']],
  ['a config of Docker in a manifest of OCI', { form: 'OCI', config: 'Docker', layers: ['oci gzip'] }, ['CRI-O']],
  ['a config of octet-stream', { form: 'Docker', config: 'octet-stream', layers: ['docker gzip'] }, ['containerd']],
];

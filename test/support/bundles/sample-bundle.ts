import { generateKeyPairSync } from 'node:crypto';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ImageRequest } from '../../../src/bundle/image-request.ts';
import { type PrivateKey, parsePrivateKey, type SignatureAlgorithm } from '../../../src/bundle/keys/keys.ts';
import { loadTrustedKeys, type Trust } from '../../../src/bundle/keys/trust.ts';
import type { Advisory, Contents, Payload, Schedule, UpdateRules } from '../../../src/domain/model/bundle.ts';
import type { BundleId } from '../../../src/domain/model/digest.ts';
import type { StickFilesystem } from '../../../src/domain/model/machine.ts';
import { parseReference } from '../../../src/domain/model/reference.ts';
import { createBundle } from '../../../src/factory/create-bundle.ts';
import type { AttachmentRequest } from '../../../src/factory/payload/attachments.ts';
import { type SampleImage, type SampleLayer, sampleImage, sampleLayer, writeOciLayout } from './sample-image.ts';

/** A key pair; `name` is what its file in keys.d is called without `.pub`. */
export interface SampleKey {
  readonly name: string;
  readonly publicPem: string;
  readonly privatePem: string;
  readonly privateKey: PrivateKey;
}

/** A new key pair, by default Ed25519. */
export function sampleKey(name = 'factory-2026', algorithm: SignatureAlgorithm = 'ed25519'): SampleKey {
  const { publicKey, privateKey } =
    algorithm === 'ed25519' ? generateKeyPairSync('ed25519') : generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  const publicPem = publicKey.export({ type: 'spki', format: 'pem' }).toString();
  const privatePem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  return { name, publicPem, privatePem, privateKey: parsePrivateKey(privatePem, `${name}.key`) };
}

/**
 * Writes `<name>.pub` of each key into a folder, which is made when it is missing. Only their owner
 * may write them, whatever the umask.
 */
export function installKeys(folder: string, keys: readonly SampleKey[]): void {
  mkdirSync(folder, { recursive: true, mode: 0o755 });
  for (const key of keys) {
    const file = join(folder, `${key.name}.pub`);
    writeFileSync(file, key.publicPem);
    chmodSync(file, 0o644);
  }
}

/** Trust in exactly these keys, loaded from a folder that is made for it below `folder`. */
export async function trustIn(keys: readonly SampleKey[], folder: string, threshold = 1): Promise<Trust> {
  const keysFolder = mkdtempSync(join(folder, 'keys.d-'));
  installKeys(keysFolder, keys);
  return { keys: await loadTrustedKeys(keysFolder, new AbortController().signal), threshold };
}

/**
 * An image of a sample bundle: its reference with a tag, as `quay.example.com/coreos/etcd:3.5.9`,
 * and its content.
 */
interface SampleBundleImage {
  readonly reference: string;
  readonly image: SampleImage;
  readonly component?: string;
  readonly pin?: boolean;
}

/** A signed bundle on disk. */
export interface SampleBundle {
  /** The bundle directory, or the image. */
  readonly path: string;
  readonly bundleId: BundleId;
  readonly payload: Payload;
  readonly contents: Contents;
  readonly keys: readonly SampleKey[];
  readonly images: readonly SampleBundleImage[];
}

/** What a sample bundle is made of; everything but `dir` has a default. */
export interface SampleBundleOptions {
  /**
   * The folder in which the directory `<name>-<version>-<arch>` is made, as `<medium>/stickpin`.
   */
  readonly dir: string;
  readonly name?: string;
  readonly version?: string;
  readonly sequence?: number;
  /** GOARCH, default this machine's. Default images are made for it. */
  readonly arch?: string;
  readonly created?: string;
  readonly expires?: string;
  readonly schedule?: Schedule;
  readonly keep?: 'life';
  readonly update?: UpdateRules;
  readonly advisories?: readonly Advisory[];
  /** Path of a bundle on which this one builds. */
  readonly base?: string;
  /** Default {@link sampleBundleImages}. */
  readonly images?: readonly SampleBundleImage[];
  /** An OCI layout that has the images under their references; default one that is made of them. */
  readonly layout?: string;
  /** Charts, models; default none. */
  readonly artifacts?: readonly Pick<SampleBundleImage, 'reference' | 'image'>[];
  /** Makes the image of a stick `<name>-<version>-<arch>.img` in `dir`. */
  readonly filesystem?: StickFilesystem;
  /** Files that travel with it; default none. */
  readonly attachments?: readonly AttachmentRequest[];
  /** Default one new key; none makes an unsigned bundle. */
  readonly keys?: readonly SampleKey[];
}

/** This machine's architecture as Go names it. */
export const hostArch = { x64: 'amd64', ppc64: 'ppc64le' }[process.arch as string] ?? process.arch;

/**
 * Two images, one with an index around it, that share no layer. `seed` makes other content under
 * the same names and another tag.
 */
function sampleBundleImages(seed = '1.0.0', arch: string = hostArch): SampleBundleImage[] {
  return ['coreos/etcd', 'ocp/api-server'].map((path, at) => ({
    reference: `quay.example.com/${path}:${seed}`,
    image: sampleImage({ seed: `${path}-${seed}`, architecture: arch, withIndex: at === 1 }),
  }));
}

/**
 * Images `quay.example.com/ocp/<name>:<tag>`, each of one layer of its own over those of `below`.
 */
export function ocpImages(
  names: readonly string[],
  options: { readonly tag?: string; readonly sizeBytes?: number; readonly below?: readonly SampleLayer[] } = {},
): SampleBundleImage[] {
  const { tag = '1.0.0', sizeBytes, below = [] } = options;
  return names.map((name) => {
    const seed = `${name}-${tag}`;
    const own = sampleLayer({ seed, ...(sizeBytes !== undefined && { sizeBytes }) });
    return { reference: `quay.example.com/ocp/${name}:${tag}`, image: sampleImage({ seed, layers: [...below, own] }) };
  });
}

function requestIn(directory: string, reference: string): ImageRequest {
  return {
    reference: parseReference(reference),
    source: { kind: 'layout', directory, selector: { kind: 'name', name: reference } },
  };
}

/**
 * Makes a signed bundle of generated images, through the real `createBundle()`. The same options
 * give the same bundle id.
 */
export async function makeSampleBundle(options: SampleBundleOptions): Promise<SampleBundle> {
  const { dir, name = 'ocp', version = '4.13.7', arch = hostArch, keys = [sampleKey()] } = options;
  const { expires, schedule, keep, update, advisories, base, filesystem } = options;
  const images = options.images ?? sampleBundleImages(version, arch);
  const artifacts = options.artifacts ?? [];
  const { layout = mkdtempSync(join(tmpdir(), 'stickpin-sample-')) } = options;
  try {
    if (options.layout === undefined) {
      writeOciLayout(
        layout,
        [...images, ...artifacts].map(({ image, reference }) => ({ image, names: [reference] })),
      );
    }
    const created = await createBundle(
      {
        out: join(dir, `${name}-${version}-${arch}${filesystem === undefined ? '' : '.img'}`),
        name,
        version,
        arch,
        sequence: options.sequence ?? 1,
        created: options.created ?? '2026-01-01T00:00:00Z',
        ...(expires !== undefined && { expires }),
        ...(schedule !== undefined && { schedule }),
        ...(keep !== undefined && { keep }),
        ...(update !== undefined && { update }),
        ...(advisories !== undefined && { advisories }),
        ...(base !== undefined && { base }),
        ...(filesystem !== undefined && { filesystem }),
        ...(artifacts.length > 0 && { artifacts: artifacts.map(({ reference }) => requestIn(layout, reference)) }),
        images: images.map(({ reference, component, pin }) => ({
          ...requestIn(layout, reference),
          ...(component !== undefined && { component }),
          ...(pin !== undefined && { pin }),
        })),
        ...(options.attachments !== undefined && { attachments: options.attachments }),
        keys: keys.map((key) => key.privateKey),
      },
      new AbortController().signal,
    );
    return { ...created, keys, images };
  } finally {
    if (options.layout === undefined) rmSync(layout, { recursive: true, force: true });
  }
}

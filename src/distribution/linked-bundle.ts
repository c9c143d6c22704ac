import { bundleError } from '../bundle/bundle-error.ts';
import { mediaTypes, parseManifest } from '../bundle/format/oci-schema.ts';
import { parseReferrers } from '../bundle/format/referrers.ts';
import { limits } from '../bundle/limits.ts';
import type { ContentPointer } from '../domain/model/bundle.ts';
import type { Digest } from '../domain/model/digest.ts';
import { formatReference, type Reference } from '../domain/model/reference.ts';
import { AppError, reasonOf, systemCodeOf } from '../platform/app-error.ts';
import { digestOf } from '../platform/digest.ts';
import { Answered, bodyOf, type RegistryAccess, RegistryClient } from './registry-client.ts';

/** The form of a bundle in a registry: docs/bundle-format.md, "In a registry". */
export const BUNDLE_TYPE = 'application/vnd.stickpin.bundle.v1';
export const ENVELOPE_TYPE = 'application/vnd.dsse.envelope.v1+json';
/** image-spec, manifest.md, "Guidance for an Empty Descriptor". */
export const emptyConfig = { mediaType: 'application/vnd.oci.empty.v1+json', bytes: Buffer.from('{}') };

/** A bundle under a tag of a registry. INVARIANT: nothing in it is trusted. */
export interface LinkedBundle {
  /** The digest of the index that the tag names. */
  readonly digest: Digest;
  /** Sizes of what are manifests of images and artifacts there; all else are blobs. */
  readonly manifests: ReadonlyMap<Digest, number>;
  /** Blobs that no manifest of an image or artifact names. */
  readonly others: readonly ContentPointer[];
  /** `bundle.dsse.json`. */
  readonly envelope: ContentPointer;
}

/** One repository of a registry with bundles. Methods throw AppError `bundle/registry`. */
export class Link {
  readonly name: string;
  readonly client: RegistryClient;

  constructor(reference: Reference, access: RegistryAccess, actions: 'pull' | 'pull,push') {
    this.name = formatReference(reference);
    this.client = new RegistryClient(reference, access, actions);
  }

  async find({ tag, digest }: Reference, signal: AbortSignal): Promise<LinkedBundle> {
    const index = await this.manifest(digest ?? tag ?? '', signal);
    if (digest !== undefined && digestOf(index) !== digest) throw this.fault(`it sends another index than ${digest}`);
    const entries = isImage(index) ? [] : parseReferrers(index, `the index of ${this.name}`, 'bundle/registry');
    const [entry, another] = entries.filter(({ artifactType }) => artifactType === BUNDLE_TYPE);
    if (entry === undefined || another !== undefined) {
      throw this.fault(
        "it names no bundle of stickpin, but maybe an image: name what 'stickpin bundle push' made, or put the image into a bundle with 'stickpin bundle create'",
      );
    }
    const manifest = await this.manifest(entry.digest, signal);
    if (digestOf(manifest) !== entry.digest) throw this.fault(`it sends another manifest than ${entry.digest}`);
    const { layers } = parseManifest(manifest, `manifest ${entry.digest} of ${this.name}`, 'bundle/registry');
    const others = layers.map(({ digest: of, size }) => ({ digest: of, size }));
    const envelope = layers.find(({ mediaType }) => mediaType === ENVELOPE_TYPE);
    if (envelope === undefined || envelope.size > limits.envelopeBytes) {
      throw this.fault(`its bundle.dsse.json is absent, or larger than ${limits.envelopeBytes} bytes`);
    }
    const manifests = new Map(entries.filter((one) => one !== entry).map((one) => [one.digest, one.size]));
    return { digest: digestOf(index), manifests, others, envelope };
  }

  /** The digest that the tag names now, by one small request. */
  async digestOf({ tag = '' }: Reference, signal: AbortSignal): Promise<string> {
    const path = `${this.client.base}manifests/${tag}`;
    const ask = { method: 'HEAD', path, headers: { accept: mediaTypes.ociIndex }, follows: true } as const;
    const { status, headers } = await this.known(this.client.document(ask, signal), signal);
    if (status === 404) throw this.fault(`it has no tag ${tag}`);
    if (status !== 200) throw this.refusal(status);
    const digest = String(headers['docker-content-digest'] ?? '');
    return digest === '' ? digestOf(await this.manifest(tag, signal)) : digest;
  }

  /** Reads at most 4 MiB. */
  async blob({ digest, size }: ContentPointer, signal: AbortSignal): Promise<Buffer> {
    const ask = { path: `${this.client.base}blobs/${digest}`, follows: true };
    const { status, body } = await this.known(this.client.document(ask, signal), signal);
    if (status !== 200) throw this.refusal(status);
    if (body.length !== size || digestOf(body) !== digest) throw this.fault(`it sends other bytes for ${digest}`);
    return body;
  }

  /** Makes one try, unchecked. If the registry sends no ranges, it begins at 0: see `onStart`. */
  async *read(
    digest: Digest,
    startByte: number,
    signal: AbortSignal,
    onStart?: (startByte: number) => Promise<void>,
  ): AsyncGenerator<Buffer, void, undefined> {
    const { client } = this;
    const headers = startByte > 0 ? { range: `bytes=${startByte}-` } : {};
    const response = await client.open({ path: `${client.base}blobs/${digest}`, headers, follows: true }, signal);
    try {
      const { statusCode: status } = response;
      const isRest = status === 206 && response.headers['content-range']?.startsWith(`bytes ${startByte}-`) === true;
      if (status !== 200 && !isRest) throw new Answered(`it answers ${status} to ${digest}`);
      let skipped = onStart === undefined && !isRest ? startByte : 0;
      await onStart?.(isRest ? startByte : 0);
      for await (const chunk of bodyOf(response)) {
        const wanted = chunk.subarray(skipped);
        skipped = Math.max(0, skipped - chunk.length);
        if (wanted.length > 0) yield wanted;
      }
    } finally {
      if (!response.complete) response.destroy();
    }
  }

  /** Its digest is not checked. */
  async manifest(name: string, signal: AbortSignal): Promise<Buffer> {
    const accept = [mediaTypes.ociIndex, mediaTypes.ociManifest, mediaTypes.dockerManifest].join(', ');
    const ask = { path: `${this.client.base}manifests/${name}`, headers: { accept }, follows: true };
    const { status, body } = await this.known(this.client.document(ask, signal), signal);
    if (status === 404) throw this.fault(`it has no ${name.startsWith('sha256:') ? name : `tag ${name}`}`);
    if (status !== 200) throw this.refusal(status);
    return body;
  }

  /** The size in bytes. Returns undefined when it is absent. */
  async sizeOf(digest: Digest, kind: 'blobs' | 'manifests', signal: AbortSignal): Promise<number | undefined> {
    const accept = '*/*';
    const ask = {
      method: 'HEAD',
      path: `${this.client.base}${kind}/${digest}`,
      headers: { accept },
      follows: true,
    } as const;
    const { status, headers } = await this.known(this.client.document(ask, signal), signal);
    if (status === 404) return undefined;
    const length = headers['content-length'] ?? '';
    if (status !== 200) throw this.refusal(status);
    if (!/^\d{1,15}$/.test(length)) throw this.fault(`it does not say what size ${digest} has`);
    return Number(length);
  }

  /** Adds this repository to errors. */
  async known<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
    try {
      return await work;
    } catch (error) {
      signal.throwIfAborted();
      // An error of a disk keeps its code; an error of a connection has no system code any more.
      if (error instanceof AppError || systemCodeOf(error) !== undefined) throw error;
      throw this.fault(reasonOf(error), error);
    }
  }

  /** 401 and 403 are about credentials; many registries give 401 for what is not there, too. */
  refusal(status: number | undefined): AppError {
    const next = status === 401 || status === 403 ? ': name an authfile with credentials that may do this' : '';
    return this.fault(`it answers ${status}${next}`);
  }

  fault(why: string, cause?: unknown): AppError {
    return bundleError('bundle/registry', `${this.name}: ${why}`, { cause });
  }
}

/** Whether it is the manifest of one image, and no index. */
function isImage(document: Buffer): boolean {
  try {
    parseManifest(document, 'it', 'bundle/registry');
    return true;
  } catch {
    return false;
  }
}

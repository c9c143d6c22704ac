import { bundleError } from '../../bundle/bundle-error.ts';
import { mediaTypes, parseManifest } from '../../bundle/format/oci-schema.ts';
import { parseReferrers } from '../../bundle/format/referrers.ts';
import { limits } from '../../bundle/limits.ts';
import type { ContentPointer } from '../../domain/model/bundle.ts';
import type { Digest } from '../../domain/model/digest.ts';
import { formatReference, type Reference } from '../../domain/model/reference.ts';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { digestOf } from '../../platform/digest.ts';
import { type RegistryAccess, RegistryClient } from '../registry/registry-client.ts';

/** The form of a bundle in a registry: docs/bundle-format.md, "In a registry". */
export const BUNDLE_TYPE = 'application/vnd.stickpin.bundle.v1';
export const ENVELOPE_TYPE = 'application/vnd.dsse.envelope.v1+json';
/** image-spec, manifest.md, "Guidance for an Empty Descriptor". */
export const emptyConfig = { mediaType: 'application/vnd.oci.empty.v1+json', bytes: Buffer.from('{}') };

/** A bundle under a tag of a registry. Nothing of it is trusted. */
export interface LinkedBundle {
  /** Of the index: what the tag names. */
  readonly digest: Digest;
  /** Sizes of what are manifests there; all else are blobs. */
  readonly manifests: ReadonlyMap<Digest, number>;
  /** `bundle.dsse.json`. */
  readonly envelope: ContentPointer;
}

/** One repository of a registry, for bundles. Methods throw AppError `bundle/registry`. */
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
    const entries = parseReferrers(index, `the index of ${this.name}`, 'bundle/registry');
    const [entry, another] = entries.filter(({ artifactType }) => artifactType === BUNDLE_TYPE);
    if (entry === undefined || another !== undefined) {
      throw this.fault("it names no bundle of stickpin: name what 'stickpin bundle push' made");
    }
    const manifest = await this.manifest(entry.digest, signal);
    if (digestOf(manifest) !== entry.digest) throw this.fault(`it sends another manifest than ${entry.digest}`);
    const { layers } = parseManifest(manifest, `manifest ${entry.digest} of ${this.name}`, 'bundle/registry');
    const envelope = layers.find(({ mediaType }) => mediaType === ENVELOPE_TYPE);
    if (envelope === undefined || envelope.size > limits.envelopeBytes) {
      throw this.fault(`its bundle.dsse.json is absent, or larger than ${limits.envelopeBytes} bytes`);
    }
    return { digest: digestOf(index), manifests: new Map(entries.map((one) => [one.digest, one.size])), envelope };
  }

  /** Its digest is not checked. */
  async manifest(name: string, signal: AbortSignal): Promise<Buffer> {
    const accept = [mediaTypes.ociIndex, mediaTypes.ociManifest, mediaTypes.dockerManifest].join(', ');
    const ask = { path: `${this.client.base}manifests/${name}`, headers: { accept }, follows: true };
    const { status, body } = await this.known(this.client.document(ask, signal), signal);
    if (status === 404) throw this.fault(`there is no ${name}`);
    if (status !== 200) throw this.refusal(status);
    return body;
  }

  /** In bytes; undefined when it is not there. */
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

  /** With this repository in their words. */
  async known<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
    try {
      return await work;
    } catch (error) {
      signal.throwIfAborted();
      // What a disk says keeps its code; what a connection says has none any more.
      if (error instanceof AppError || systemCodeOf(error) !== undefined) throw error;
      throw this.fault(reasonOf(error), error);
    }
  }

  /** 401 and 403 are about credentials; many registries give 401 for what is not there, too. */
  refusal(status: number | undefined): AppError {
    const next = status === 401 || status === 403 ? ': give credentials that may do this with --authfile' : '';
    return this.fault(`it answers ${status}${next}`);
  }

  fault(why: string, cause?: unknown): AppError {
    return bundleError('bundle/registry', `${this.name}: ${why}`, { cause });
  }
}

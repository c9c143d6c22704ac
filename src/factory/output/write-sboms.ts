import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import { decodeJson } from '../../bundle/format/json.ts';
import { type Descriptor, indexMediaTypes, parseIndex } from '../../bundle/format/oci-schema.ts';
import { parseReferring } from '../../bundle/format/referrers.ts';
import { limits } from '../../bundle/limits.ts';
import type { BundleReader } from '../../bundle/read/bundle-reader.ts';
import { readBlob } from '../../bundle/read/open-file.ts';
import type { Contents, Image } from '../../domain/model/bundle.ts';
import { type Digest, hexOf } from '../../domain/model/digest.ts';
import { parseReference } from '../../domain/model/reference.ts';
import { AppError } from '../../platform/app-error.ts';
import { digestOf } from '../../platform/digest.ts';
import { buildDirectory } from './staging.ts';

export interface WrittenSbom {
  /** Its name in the folder. */
  readonly file: string;
  /** Reference by digest. */
  readonly image: string;
  readonly format: string;
  readonly sizeBytes: number;
}

export interface WrittenSboms {
  readonly sboms: readonly WrittenSbom[];
  /** Unreadable documents, with reasons. */
  readonly notes: readonly string[];
}

/** Formats by words in media types and in types of predicates. Other programs expect `ending`. */
const FORMATS = [
  { word: /spdx/i, format: 'SPDX', ending: '.spdx' },
  { word: /cyclonedx/i, format: 'CycloneDX', ending: '.cdx' },
  { word: /[./]syft\b/i, format: 'Syft', ending: '.syft' },
] as const;

/** in-toto statements: bare (buildkit), in a DSSE envelope (cosign), and in a sigstore bundle. */
const STATEMENT = /in-toto|dsse|sigstore\.bundle/i;

type Format = (typeof FORMATS)[number];

interface Sbom {
  readonly of: Format;
  readonly bytes: Buffer;
}

/**
 * Makes the folder `target` with the SBOMs that are attached to images: by the tags of cosign, in
 * its attestations, and as referrers. Nothing is verified.
 *
 * @throws AppError `bundle/target` when `target` is not empty; `bundle/no-space`; `media/…`
 */
export async function writeSboms(
  target: string,
  reader: BundleReader,
  { images }: Contents,
  signal: AbortSignal,
): Promise<WrittenSboms> {
  const sboms: WrittenSbom[] = [];
  const names = new Set<string>();
  const attached = new AttachedSboms(reader, signal);
  await buildDirectory(
    target,
    async (folder) => {
      for (const image of images) {
        const seen = new Set<Digest>();
        for await (const { of, bytes } of attached.of(image)) {
          const digest = digestOf(bytes);
          if (seen.has(digest)) continue;
          seen.add(digest);
          const file = freeName(image, `${of.ending}${endingOf(bytes)}`, names);
          await writeFile(join(folder, file), bytes, { flag: 'wx' });
          sboms.push({ file, image: image.reference, format: of.format, sizeBytes: bytes.length });
        }
      }
    },
    signal,
  );
  return { sboms, notes: attached.notes };
}

/** Characters of a repository in the name of a file. */
const MAX_NAME = 180;
const SHORT_DIGEST = 12;

/** `quay.io_edge_app-0123456789ab.spdx.json`, of a second one `…-2.spdx.json`. */
function freeName({ reference, digest }: Image, ending: string, taken: Set<string>): string {
  const repository = parseReference(reference)
    .repository.replace(/[^A-Za-z0-9.-]+/g, '_')
    .slice(-MAX_NAME);
  const name = `${repository.replace(/^[^A-Za-z0-9]+/, '')}-${hexOf(digest).slice(0, SHORT_DIGEST)}`;
  for (let at = 1; ; at += 1) {
    const file = `${name}${at === 1 ? '' : `-${at}`}${ending}`;
    if (taken.has(file)) continue;
    taken.add(file);
    return file;
  }
}

/** SPDX has a form in lines, too. */
function endingOf(bytes: Buffer): string {
  const [first] = bytes
    .toString('utf8', 0, 1024)
    .replace(/^\ufeff/, '')
    .trimStart();
  return first === '{' ? '.json' : first === '<' ? '.xml' : '';
}

const statement = v.looseObject({ predicateType: v.string(), predicate: v.unknown() });
const envelope = v.looseObject({ payload: v.string() });
const sigstoreBundle = v.looseObject({ dsseEnvelope: envelope });
/** Older versions of cosign have the predicate in this member. */
const wrapped = v.looseObject({ Data: v.unknown() });

class AttachedSboms {
  readonly notes: string[] = [];

  constructor(
    private readonly reader: BundleReader,
    private readonly signal: AbortSignal,
  ) {}

  async *of(image: Image): AsyncGenerator<Sbom> {
    for (const { tag, blobs: _, ...top } of image.attached ?? []) {
      if (tag.endsWith('.sig')) continue;
      const what = `${tag} of ${image.reference}`;
      for (const manifest of await this.manifestsOf(top, what)) yield* this.inManifest(manifest, what);
    }
  }

  private async manifestsOf(top: Descriptor, what: string): Promise<readonly Descriptor[]> {
    if (!indexMediaTypes.has(top.mediaType)) return [top];
    return (await this.taken(top, what, (bytes) => parseIndex(bytes, what, 'bundle/inconsistent').manifests)) ?? [];
  }

  private async *inManifest(manifest: Descriptor, what: string): AsyncGenerator<Sbom> {
    const found = await this.taken(manifest, what, (bytes) => parseReferring(bytes, what, 'bundle/inconsistent'));
    if (found?.kind !== 'manifest') return;
    const { artifactType = '', layers } = found;
    // `oras attach` gives a file without a type that of any layer.
    const ofAll = layers.some(({ mediaType }) => formatOf(mediaType)) ? undefined : formatOf(artifactType);
    for (const layer of layers) {
      const of = formatOf(layer.mediaType) ?? ofAll;
      if (of === undefined && !STATEMENT.test(layer.mediaType)) continue;
      const sbom = await this.taken(layer, what, (bytes) => (of === undefined ? attested(bytes, what) : { of, bytes }));
      if (sbom !== undefined) yield sbom;
    }
  }

  /** Returns undefined and adds a note when it is absent or can't be read. */
  private async taken<T>(of: Descriptor, what: string, take: (bytes: Buffer) => T): Promise<T | undefined> {
    const read = await readBlob(this.reader, { digest: of.digest, sizeBytes: of.size }, this.signal);
    try {
      if (read.kind === 'read') return take(read.bytes);
      this.notes.push(`${what}: blob ${of.digest} is ${read.missing.why}; see stickpin bundle verify`);
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      this.notes.push(`${what}: ${error.message}`);
    }
    return undefined;
  }
}

function formatOf(type: string): Format | undefined {
  return FORMATS.find(({ word }) => word.test(type));
}

/** The SBOM in an in-toto statement, if it has one. @throws AppError */
function attested(bytes: Buffer, what: string): Sbom | undefined {
  const outer = parse(bytes, what);
  const signed = v.is(sigstoreBundle, outer) ? outer.dsseEnvelope : outer;
  const inner = v.is(envelope, signed) ? parse(Buffer.from(signed.payload, 'base64'), what) : signed;
  const of = v.is(statement, inner) ? formatOf(inner.predicateType) : undefined;
  if (of === undefined || !v.is(statement, inner)) return undefined;
  const predicate = v.is(wrapped, inner.predicate) ? inner.predicate.Data : inner.predicate;
  const text = typeof predicate === 'string' ? predicate : `${JSON.stringify(predicate)}\n`;
  return { of, bytes: Buffer.from(text) };
}

function parse(bytes: Buffer, what: string): unknown {
  return decodeJson(bytes, `an attestation in ${what}`, 'bundle/inconsistent', limits.treeItems);
}

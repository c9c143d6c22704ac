import * as v from 'valibot';
import { bundleError } from '../../bundle/bundle-error.ts';
import { envelopeSchema, preAuthenticationEncoding } from '../../bundle/format/dsse.ts';
import { parseJson } from '../../bundle/format/json.ts';
import { parseReferrers, referrersTagOf } from '../../bundle/format/referrers.ts';
import { digest } from '../../bundle/format/schema.ts';
import type { AttachedTag } from '../../domain/model/bundle.ts';
import { type Digest, hexOf } from '../../domain/model/digest.ts';
import { parseReference, type Reference } from '../../domain/model/reference.ts';
import { AppError } from '../../platform/app-error.ts';
import { clip } from '../../platform/plain-text.ts';
import { signatureTagOf } from '../images/attached.ts';

/** A signature of `subject`. Nothing in it is verified. */
export interface ImageSignature {
  /** The name in messages. */
  readonly what: string;
  readonly signed: Buffer;
  readonly signature: Buffer;
  /** The image that it names; sigstore bundles name none. */
  readonly reference?: Reference;
  /** Certificate, entry of a log and timestamps, if there are any. */
  readonly material: SignatureMaterial;
}

type SignatureMaterial =
  | { readonly kind: 'annotations'; readonly annotations: Readonly<Record<string, string>> }
  | { readonly kind: 'bundle'; readonly document: unknown };

interface FoundSignatures {
  readonly signatures: readonly ImageSignature[];
  /** Why other signatures don't count, a sentence each. */
  readonly faults: readonly string[];
}

const MAX_SIGNATURES = 64;
const MAX_BYTES = 256 * 1024;
const MAX_PROOFS = 8;

const SIMPLE_SIGNING = 'application/vnd.dev.cosign.simplesigning.v1+json';
const SIGSTORE_BUNDLE = /^application\/vnd\.dev\.sigstore\.bundle/;
const IN_TOTO = 'application/vnd.in-toto+json';
const SIGNATURE = 'dev.cosignproject.cosign/signature';

const manifest = v.looseObject({
  layers: v.array(
    v.looseObject({
      mediaType: v.string(),
      digest,
      annotations: v.exactOptional(v.record(v.string(), v.string()), {}),
    }),
  ),
});

/** cosign, "Simple Signing": what is critical must be understood. */
const simpleSigning = v.looseObject({
  critical: v.strictObject({
    type: v.literal('cosign container image signature'),
    image: v.strictObject({ 'docker-manifest-digest': v.string() }),
    identity: v.strictObject({ 'docker-reference': v.string() }),
  }),
});

/** The library compares each with each. */
const proofs = v.exactOptional(v.pipe(v.array(v.unknown()), v.maxLength(MAX_PROOFS)));

const sigstoreBundle = v.pipe(
  v.looseObject({
    verificationMaterial: v.exactOptional(
      v.looseObject({
        tlogEntries: proofs,
        timestampVerificationData: v.nullish(v.looseObject({ rfc3161Timestamps: proofs })),
      }),
    ),
    dsseEnvelope: v.exactOptional(envelopeSchema),
    messageSignature: v.exactOptional(v.looseObject({ signature: v.string() })),
  }),
  v.check(
    (one) => (one.dsseEnvelope === undefined) !== (one.messageSignature === undefined),
    'must have either dsseEnvelope or messageSignature',
  ),
);

/** in-toto. An attestation of another predicate is no signature of the image. */
const statement = v.looseObject({
  _type: v.picklist(['https://in-toto.io/Statement/v1', 'https://in-toto.io/Statement/v0.1']),
  predicateType: v.literal('https://sigstore.dev/cosign/sign/v1'),
  subject: v.array(v.looseObject({ digest: v.looseObject({ sha256: v.exactOptional(v.string()) }) })),
});

/** Reads the signatures of a manifest or index from the documents that travel with its image. */
export class SignatureReader {
  constructor(private readonly documents: ReadonlyMap<Digest, Buffer>) {}

  of(subject: Digest, attached: readonly AttachedTag[]): FoundSignatures {
    const signatures: ImageSignature[] = [];
    const faults: string[] = [];
    const attempt = (read: () => void) => {
      if (signatures.length + faults.length >= MAX_SIGNATURES) return;
      try {
        read();
      } catch (error) {
        if (!(error instanceof AppError)) throw error;
        faults.push(clip(error.message, 300));
      }
    };
    for (const { tag, digest: of } of attached) {
      const isReferrers = tag === referrersTagOf(subject);
      if (!isReferrers && tag !== signatureTagOf(subject)) continue;
      const manifests = isReferrers ? parseReferrers(this.read(of, tag), tag, 'bundle/source') : [{ digest: of }];
      for (const { digest: of } of manifests) {
        attempt(() => {
          const what = isReferrers ? `referrer ${of}` : tag;
          for (const layer of parseJson(this.read(of, what), manifest, what, 'bundle/source').layers) {
            if (isReferrers && SIGSTORE_BUNDLE.test(layer.mediaType)) {
              attempt(() => signatures.push(this.bundled(subject, layer.digest, what)));
            } else if (!isReferrers && layer.mediaType === SIMPLE_SIGNING) {
              attempt(() => signatures.push(this.tagged(subject, layer, what)));
            }
          }
        });
      }
    }
    return { signatures, faults };
  }

  private read(of: Digest, what: string): Buffer {
    const bytes = this.documents.get(of);
    if (bytes === undefined) throw bundleError('bundle/source', `${what}: ${of} is not there`);
    return bytes;
  }

  private small(of: Digest, what: string): Buffer {
    const bytes = this.read(of, what);
    if (bytes.length <= MAX_BYTES) return bytes;
    throw bundleError('bundle/source', `${what}: it has ${bytes.length} bytes, too many for a signature`);
  }

  private tagged(
    subject: Digest,
    { digest: of, annotations }: v.InferOutput<typeof manifest>['layers'][number],
    what: string,
  ): ImageSignature {
    const signed = this.small(of, what);
    const { critical } = parseJson(signed, simpleSigning, what, 'bundle/source');
    checkSubject([critical.image['docker-manifest-digest']], subject, what);
    const signature = annotations[SIGNATURE];
    if (signature === undefined) throw bundleError('bundle/source', `${what}: it has no annotation ${SIGNATURE}`);
    return {
      what,
      signed,
      signature: Buffer.from(signature, 'base64'),
      reference: parseReference(critical.identity['docker-reference']),
      material: { kind: 'annotations', annotations },
    };
  }

  private bundled(subject: Digest, of: Digest, what: string): ImageSignature {
    const bytes = this.small(of, what);
    const document = parseJson(bytes, sigstoreBundle, what, 'bundle/source');
    const { dsseEnvelope, messageSignature } = document;
    const material = { kind: 'bundle', document } as const;
    if (messageSignature !== undefined) {
      const signature = Buffer.from(messageSignature.signature, 'base64');
      return { what, signed: this.read(subject, what), signature, material };
    }
    const [signature, second] = dsseEnvelope?.signatures ?? [];
    if (dsseEnvelope?.payloadType !== IN_TOTO || signature === undefined || second !== undefined) {
      throw bundleError('bundle/source', `${what}: it must have one signature, of an in-toto statement`);
    }
    const payload = Buffer.from(dsseEnvelope.payload, 'base64');
    const { subject: subjects } = parseJson(payload, statement, what, 'bundle/source');
    checkSubject(
      subjects.map(({ digest: { sha256 = '' } }) => `sha256:${sha256}`),
      subject,
      what,
    );
    return {
      what,
      signed: preAuthenticationEncoding(IN_TOTO, payload),
      signature: Buffer.from(signature.sig, 'base64'),
      material,
    };
  }
}

function checkSubject(found: readonly string[], subject: Digest, what: string): void {
  if (found.includes(subject)) return;
  const named = JSON.stringify(found[0] ?? '');
  throw bundleError('bundle/source', `${what}: it is for ${named}, not for ${hexOf(subject).slice(0, 12)}…`);
}

import { bundleFromJSON } from '@sigstore/bundle';
import { TrustedRoot } from '@sigstore/protobuf-specs';
import { type SignedEntity, toSignedEntity, toTrustMaterial, Verifier } from '@sigstore/verify';
import * as v from 'valibot';
import { bundleError } from '../../bundle/bundle-error.ts';
import { decodeJson, parseJson, validateJson } from '../../bundle/format/json.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { digestOf } from '../../platform/digest.ts';
import type { ImageSignature } from './image-signatures.ts';
import { isSignedBy, type SignatureKey } from './signature-key.ts';

/** containers-policy.json(5), `fulcio`. */
export interface FulcioIdentity {
  readonly oidcIssuer: string;
  readonly subjectEmail?: string;
  readonly buildSignerURI?: string;
}

const trustedRoot = v.looseObject({
  mediaType: v.pipe(v.string(), v.startsWith('application/vnd.dev.sigstore.trustedroot')),
});

type TrustMaterial = ReturnType<typeof toTrustMaterial>;

/** Authorities and logs of sigstore, as `trusted_root.json` has them. Needs no network. */
export class SigstoreRoot {
  private readonly trust: TrustMaterial;

  /** `what` names the file. @throws AppError `bundle/option` */
  constructor(bytes: Buffer, what: string) {
    const document = parseJson(bytes, trustedRoot, what, 'bundle/option');
    try {
      this.trust = toTrustMaterial(TrustedRoot.fromJSON(document));
    } catch (cause) {
      throw bundleError('bundle/option', `${what}: it can't be read: ${reasonOf(cause)}`, { cause });
    }
  }

  get hasAuthority(): boolean {
    return this.trust.certificateAuthorities.length > 0;
  }

  get hasLog(): boolean {
    return this.trust.tlogs.length > 0;
  }

  /** @throws AppError `bundle/source` unless a log has the signature, which `key` made */
  checkLogged(signature: ImageSignature, key: SignatureKey): void {
    this.attempt(signature, (entity) => {
      const trust = { ...this.trust, publicKey: () => ({ publicKey: key.key, validFor: () => true }) };
      const verifier = new Verifier(trust, { ctlogThreshold: 0, timestampThreshold: 0 });
      // The library takes one hash for all keys of a kind.
      const signed: SignedEntity['signature'] = Object.create(entity.signature, {
        verifySignature: { value: () => isSignedBy(key, signature) },
      });
      verifier.verify({ ...entity, signature: signed, key: { $case: 'public-key', hint: '' }, timestamps: [] });
    });
  }

  /** @throws AppError `bundle/source` unless a certificate for it signed while it was valid */
  checkIdentity(signature: ImageSignature, identity: FulcioIdentity): void {
    this.attempt(signature, (entity) => {
      if (entity.key.$case !== 'certificate') throw new Error('it has no certificate');
      // A private sigstore may have no logs, so nothing can be in them.
      const [tlogThreshold, ctlogThreshold] = [this.hasLog ? 1 : 0, this.trust.ctlogs.length > 0 ? 1 : 0];
      const verifier = new Verifier(this.trust, { tlogThreshold, ctlogThreshold });
      const { subjectAlternativeName, extensions, oids = [] } = verifier.verify(entity).identity ?? {};
      const uri = oids.find(({ oid }) => oid?.id.join('.') === BUILD_SIGNER_URI)?.value;
      const { oidcIssuer, subjectEmail, buildSignerURI } = identity;
      if (extensions?.issuer !== oidcIssuer)
        throw new Error(`it is by ${subjectAlternativeName} of ${extensions?.issuer}`);
      if (subjectEmail !== undefined && subjectAlternativeName !== subjectEmail) {
        throw new Error(`it is by ${subjectAlternativeName}`);
      }
      if (buildSignerURI !== undefined && uri?.equals(utf8String(buildSignerURI)) !== true) {
        throw new Error(`it is by ${subjectAlternativeName}, built by ${uri?.toString('utf8', 2) ?? 'nothing known'}`);
      }
    });
  }

  /** An error of the library is a verdict: foreign documents may be malformed in any way. */
  private attempt(signature: ImageSignature, check: (entity: SignedEntity) => void): void {
    try {
      check(toSignedEntity(bundleFromJSON(bundleOf(signature)), signature.signed));
    } catch (cause) {
      const reason = cause instanceof AppError ? cause.message : `${signature.what}: ${reasonWithCause(cause)}`;
      throw bundleError('bundle/source', reason, { cause });
    }
  }
}

function reasonWithCause(thrown: unknown): string {
  const cause = thrown instanceof Error && thrown.cause instanceof Error ? `: ${reasonOf(thrown.cause)}` : '';
  return `${reasonOf(thrown)}${cause}`;
}

/** The workflow that signed (Fulcio, oid-info.md). */
const BUILD_SIGNER_URI = '1.3.6.1.4.1.57264.1.9';

/** X.690, at most 64 KiB. */
function utf8String(text: string): Buffer {
  const bytes = Buffer.from(text);
  const { length } = bytes;
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([0x0c, ...size]), bytes]);
}

const rekorBundle = v.looseObject({
  SignedEntryTimestamp: v.string(),
  Payload: v.looseObject({
    body: v.pipe(v.string(), v.base64()),
    integratedTime: v.pipe(v.number(), v.safeInteger()),
    logIndex: v.pipe(v.number(), v.safeInteger()),
    logID: v.pipe(v.string(), v.hexadecimal()),
  }),
});
const rekorEntry = v.looseObject({ kind: v.string(), apiVersion: v.string() });
const timestamp = v.looseObject({ SignedRFC3161Timestamp: v.string() });

/** A `.sig` in the form of a sigstore bundle; its annotations are those of cosign 2. */
function bundleOf({ what, signed, signature, material }: ImageSignature): unknown {
  if (material.kind === 'bundle') return material.document;
  const annotation = <Schema extends v.GenericSchema>(name: string, schema: Schema) => {
    const text = material.annotations[`dev.sigstore.cosign/${name}`];
    return text === undefined ? [] : [parseJson(Buffer.from(text), schema, `${what}, ${name}`, 'bundle/source')];
  };
  const certificate = material.annotations['dev.sigstore.cosign/certificate'];
  const digest = Buffer.from(digestOf(signed).slice('sha256:'.length), 'hex').toString('base64');
  return {
    mediaType: 'application/vnd.dev.sigstore.bundle+json;version=0.1',
    messageSignature: {
      messageDigest: { algorithm: 'SHA2_256', digest },
      signature: signature.toString('base64'),
    },
    verificationMaterial: {
      ...(certificate === undefined
        ? { publicKey: { hint: '' } }
        : { x509CertificateChain: { certificates: [{ rawBytes: derOf(certificate) }] } }),
      tlogEntries: annotation('bundle', rekorBundle).map((found) => tlogEntryOf(found, what)),
      timestampVerificationData: {
        rfc3161Timestamps: annotation('rfc3161timestamp', timestamp).map((found) => ({
          signedTimestamp: found.SignedRFC3161Timestamp,
        })),
      },
    },
  };
}

function tlogEntryOf({ SignedEntryTimestamp, Payload }: v.InferOutput<typeof rekorBundle>, what: string) {
  const entry = decodeJson(Buffer.from(Payload.body, 'base64'), `${what}, entry of the log`, 'bundle/source');
  const { kind, apiVersion } = validateJson(entry, rekorEntry, `${what}, entry of the log`, 'bundle/source');
  return {
    logIndex: `${Payload.logIndex}`,
    logId: { keyId: Buffer.from(Payload.logID, 'hex').toString('base64') },
    kindVersion: { kind, version: apiVersion },
    integratedTime: `${Payload.integratedTime}`,
    inclusionPromise: { signedEntryTimestamp: SignedEntryTimestamp },
    canonicalizedBody: Payload.body,
  };
}

/** Base64 of the first certificate in PEM. */
function derOf(pem: string): string {
  return /-----BEGIN CERTIFICATE-----([^-]*)-----END CERTIFICATE-----/.exec(pem)?.[1]?.replace(/\s/g, '') ?? '';
}

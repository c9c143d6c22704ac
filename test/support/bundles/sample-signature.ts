import { preAuthenticationEncoding } from '../../../src/bundle/format/dsse.ts';
import { digestOf, type SampleBlob, type SampleImage } from './sample-image.ts';

const SIGSTORE_BUNDLE = 'application/vnd.dev.sigstore.bundle.v0.3+json';

/**
 * A sigstore signature as cosign attaches it to the manifest `subject` (`sha256:<hex>`): an image
 * manifest whose one layer is a simple-signing payload and no tar. Without `sign` the signature
 * itself is none.
 */
export function sampleSignature(
  subject: string,
  reference = 'quay.example.com/edge/app',
  sign: (payload: Buffer) => Buffer = () => Buffer.from(`over ${subject}`),
  annotationsOf: (payload: Buffer, signature: Buffer) => Readonly<Record<string, string>> = () => ({}),
): SampleImage {
  const payload = blob('application/vnd.dev.cosign.simplesigning.v1+json', {
    critical: {
      identity: { 'docker-reference': reference },
      image: { 'docker-manifest-digest': subject },
      type: 'cosign container image signature',
    },
    optional: null,
  });
  const config = blob('application/vnd.oci.image.config.v1+json', {
    architecture: '',
    os: '',
    config: {},
    rootfs: { type: 'layers', diff_ids: [payload.digest] },
  });
  const descriptor = ({ mediaType, digest, sizeBytes }: SampleBlob) => ({ mediaType, digest, size: sizeBytes });
  const signature = sign(payload.bytes);
  const annotations = {
    'dev.cosignproject.cosign/signature': signature.toString('base64'),
    ...annotationsOf(payload.bytes, signature),
  };
  const manifest = blob('application/vnd.oci.image.manifest.v1+json', {
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    config: descriptor(config),
    layers: [{ ...descriptor(payload), annotations }],
  });
  return { manifest, config, layers: [], top: manifest, blobs: [manifest, config, payload] };
}

/**
 * A document that refers to the manifest `subject` (image-spec 1.1), as a sigstore bundle of cosign
 * 3.
 */
export function sampleReferrer(
  subject: { readonly digest: string; readonly mediaType: string; readonly sizeBytes: number },
  artifactType = SIGSTORE_BUNDLE,
  content: object = { of: subject.digest },
): SampleImage {
  const { mediaType, digest, sizeBytes: size } = subject;
  return sampleArtifact([blob(artifactType, content)], {
    artifactType,
    subject: { mediaType, digest, size },
    annotations: { 'org.opencontainers.image.created': '2026-01-01T00:00:00Z' },
  });
}

/** A manifest with these layers that is no image; `more` are members of it. */
export function sampleArtifact(layers: readonly SampleBlob[], more: object = {}): SampleImage {
  const config = blob('application/vnd.oci.empty.v1+json', {});
  const descriptor = ({ mediaType, digest, sizeBytes }: SampleBlob) => ({ mediaType, digest, size: sizeBytes });
  const mediaType = 'application/vnd.oci.image.manifest.v1+json';
  const manifest = blob(mediaType, {
    schemaVersion: 2,
    mediaType,
    config: descriptor(config),
    layers: layers.map(descriptor),
    ...more,
  });
  return { manifest, config, layers: [], top: manifest, blobs: [manifest, config, ...layers] };
}

/** What cosign 3 signs: an in-toto statement in a DSSE envelope. */
export function dsseEnvelope(
  subject: string,
  sign: (signed: Buffer) => Buffer,
  predicateType = 'https://sigstore.dev/cosign/sign/v1',
) {
  const payloadType = 'application/vnd.in-toto+json';
  const payload = Buffer.from(
    JSON.stringify({
      _type: 'https://in-toto.io/Statement/v1',
      subject: [{ digest: { sha256: subject.slice('sha256:'.length) } }],
      predicateType,
      predicate: {},
    }),
  );
  const sig = sign(preAuthenticationEncoding(payloadType, payload)).toString('base64');
  return { payloadType, payload: payload.toString('base64'), signatures: [{ sig }] };
}

/** The tag that the signature of `subject` has. */
export function signatureTag(subject: string): string {
  return `${subject.replace(':', '-')}.sig`;
}

function blob(mediaType: string, value: unknown): SampleBlob {
  return textBlob(mediaType, JSON.stringify(value));
}

export function textBlob(mediaType: string, text: string): SampleBlob {
  const bytes = Buffer.from(text);
  return { mediaType, digest: digestOf(bytes), sizeBytes: bytes.length, bytes };
}

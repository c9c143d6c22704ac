import { createHash, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';

/**
 * A sigstore of our own: a certificate authority, its certificate log, and a log of signatures. All
 * are new each time, and need no network.
 */
export class SampleSigstore {
  static readonly NOW = Date.parse('2026-01-01T00:00:00Z');
  private readonly authority = pair();
  private readonly certificateLog = pair();
  private readonly log = pair();
  private readonly root = this.certify('Root', this.authority.publicKey, [extension('2.5.29.19', seq(TRUE), true)]);

  /** As `trusted_root.json`; `without` leaves a list empty. */
  trustedRoot(without?: 'tlogs' | 'ctlogs' | 'certificateAuthorities'): object {
    const start = new Date(SampleSigstore.NOW - 10 * HOUR).toISOString();
    const logOf = (key: KeyObject) => ({
      baseUrl: 'https://log.example.com',
      hashAlgorithm: 'SHA2_256',
      publicKey: {
        rawBytes: spki(key).toString('base64'),
        keyDetails: 'PKIX_ECDSA_P256_SHA_256',
        validFor: { start },
      },
      logId: { keyId: sha256(spki(key)).toString('base64') },
    });
    const certificates = [{ rawBytes: this.root.toString('base64') }];
    return {
      mediaType: 'application/vnd.dev.sigstore.trustedroot+json;version=0.1',
      tlogs: [logOf(this.log.publicKey)],
      ctlogs: [logOf(this.certificateLog.publicKey)],
      certificateAuthorities: [
        {
          subject: { organization: 'sample', commonName: 'Root' },
          uri: 'https://ca.example.com',
          certChain: { certificates },
          validFor: { start },
        },
      ],
      timestampAuthorities: [],
      ...(without && { [without]: [] }),
    };
  }

  /** A key with a certificate of ten minutes from `from` on. */
  signer({
    email = 'dev@example.com',
    issuer = 'https://accounts.example.com',
    workflow,
    from = SampleSigstore.NOW,
    isLogged = true,
  }: {
    readonly email?: string;
    readonly issuer?: string;
    readonly workflow?: string;
    readonly from?: number;
    readonly isLogged?: boolean;
  } = {}): SampleSigner {
    const { publicKey, privateKey } = pair();
    const name = workflow === undefined ? der(0x81, Buffer.from(email)) : der(0x86, Buffer.from(workflow));
    const extensions = [
      extension('2.5.29.17', seq(name), true),
      extension('1.3.6.1.4.1.57264.1.8', utf8(issuer)),
      ...(workflow === undefined ? [] : [extension('1.3.6.1.4.1.57264.1.9', utf8(workflow))]),
    ];
    const stamps = isLogged ? [this.certificateStamp(tbs('', publicKey, extensions, from))] : [];
    const certificate = this.certify('', publicKey, [...extensions, ...stamps], from);
    return { certificate, sign: (signed) => sign('sha256', signed, privateKey) };
  }

  /** An entry of the log at `time`, with a promise and a proof. */
  entry(body: object, time = SampleSigstore.NOW + 60_000) {
    const { kind, apiVersion } = body as { readonly kind: string; readonly apiVersion: string };
    const bytes = Buffer.from(JSON.stringify(body));
    const logID = sha256(spki(this.log.publicKey));
    const integratedTime = time / 1000;
    const promised = { body: bytes.toString('base64'), integratedTime, logID: logID.toString('hex'), logIndex: 0 };
    const promise = sign('sha256', Buffer.from(JSON.stringify(promised)), this.log.privateKey).toString('base64');
    const root = sha256(Buffer.concat([Buffer.of(0), bytes])).toString('base64');
    const note = `log.example.com\n1\n${root}\n`;
    const signature = Buffer.concat([logID.subarray(0, 4), sign('sha256', Buffer.from(note), this.log.privateKey)]);
    return {
      annotation: { SignedEntryTimestamp: promise, Payload: promised },
      entry: {
        logIndex: '0',
        logId: { keyId: logID.toString('base64') },
        kindVersion: { kind, version: apiVersion },
        integratedTime: `${integratedTime}`,
        inclusionPromise: { signedEntryTimestamp: promise },
        inclusionProof: {
          logIndex: '0',
          rootHash: root,
          treeSize: '1',
          hashes: [],
          checkpoint: { envelope: `${note}\n— log.example.com ${signature.toString('base64')}\n` },
        },
        canonicalizedBody: bytes.toString('base64'),
      },
    };
  }

  private certify(subject: string, key: KeyObject, extensions: readonly Buffer[], from = SampleSigstore.NOW): Buffer {
    const part = tbs(subject, key, extensions, from);
    const signature = sign('sha256', part, this.authority.privateKey);
    return seq(part, seq(oid(ECDSA)), der(0x03, Buffer.of(0), signature));
  }

  /** RFC 6962, 3.2 and 3.3. */
  private certificateStamp(part: Buffer): Buffer {
    const time = uint(8, SampleSigstore.NOW);
    const entry = Buffer.concat([sha256(spki(this.authority.publicKey)), uint(3, part.length), part, uint(2, 0)]);
    const signed = Buffer.concat([Buffer.of(0, 0), time, uint(2, 1), entry]);
    const signature = sign('sha256', signed, this.certificateLog.privateKey);
    const logId = sha256(spki(this.certificateLog.publicKey));
    const stamp = [Buffer.of(0), logId, time, uint(2, 0), Buffer.of(4, 3), uint(2, signature.length), signature];
    const one = Buffer.concat(stamp);
    return extension('1.3.6.1.4.1.11129.2.4.2', der(0x04, uint(2, one.length + 2), uint(2, one.length), one));
  }
}

export interface SampleSigner {
  /** X.509, DER. */
  readonly certificate: Buffer;
  readonly sign: (signed: Buffer) => Buffer;
}

/** What Rekor keeps of a signature over `signed`. */
export function hashedRekord(signed: Buffer, signature: Buffer): object {
  return {
    apiVersion: '0.0.1',
    kind: 'hashedrekord',
    spec: {
      data: { hash: { algorithm: 'sha256', value: sha256(signed).toString('hex') } },
      signature: { content: signature.toString('base64') },
    },
  };
}

/** What Rekor keeps of a DSSE envelope. */
export function dsseEntry({
  payload,
  signatures,
}: {
  payload: string;
  signatures: readonly { sig: string }[];
}): object {
  return {
    apiVersion: '0.0.1',
    kind: 'dsse',
    spec: {
      payloadHash: { algorithm: 'sha256', value: sha256(Buffer.from(payload, 'base64')).toString('hex') },
      signatures: signatures.map(({ sig }) => ({ signature: sig })),
    },
  };
}

const HOUR = 3_600_000;
const ECDSA = '1.2.840.10045.4.3.2';
const TRUE = Buffer.of(0x01, 0x01, 0xff);

/** RFC 5280; the authority is the issuer. */
function tbs(subject: string, key: KeyObject, extensions: readonly Buffer[], from: number): Buffer {
  const [start, end] = subject === '' ? [from, from + 600_000] : [from - 10 * HOUR, from + 10 * HOUR];
  return seq(
    der(0xa0, der(0x02, Buffer.of(2))),
    der(0x02, Buffer.of(7)),
    seq(oid(ECDSA)),
    nameOf('Root'),
    seq(timeOf(start), timeOf(end)),
    nameOf(subject),
    spki(key),
    der(0xa3, seq(...extensions)),
  );
}

function nameOf(text: string): Buffer {
  return text === '' ? seq() : seq(der(0x31, seq(oid('2.5.4.3'), utf8(text))));
}

function timeOf(ms: number): Buffer {
  const text = new Date(ms).toISOString().replace(/\.\d+|[-:T]/g, '');
  return der(0x18, Buffer.from(text));
}

function extension(id: string, value: Buffer, isCritical = false): Buffer {
  return seq(oid(id), ...(isCritical ? [TRUE] : []), der(0x04, value));
}

/** X.690. */
function der(tag: number, ...parts: readonly Buffer[]): Buffer {
  const value = Buffer.concat(parts);
  const { length } = value;
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.of(tag, ...size), value]);
}

function seq(...parts: readonly Buffer[]): Buffer {
  return der(0x30, ...parts);
}

function utf8(text: string): Buffer {
  return der(0x0c, Buffer.from(text));
}

function oid(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split('.').map(Number);
  const bytes = rest.flatMap((part) => {
    const digits = [part & 0x7f];
    for (let left = part >> 7; left > 0; left >>= 7) digits.unshift((left & 0x7f) | 0x80);
    return digits;
  });
  return der(0x06, Buffer.of(first * 40 + second, ...bytes));
}

function uint(size: number, value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(value));
  return bytes.subarray(8 - size);
}

function pair() {
  return generateKeyPairSync('ec', { namedCurve: 'P-256' });
}

function spki(key: KeyObject): Buffer {
  return key.export({ type: 'spki', format: 'der' });
}

function sha256(bytes: Buffer): Buffer {
  return createHash('sha256').update(bytes).digest();
}

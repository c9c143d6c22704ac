import { constants, createPrivateKey, X509Certificate } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { createSecureContext, type SecureContext, type SecureContextOptions } from 'node:tls';
import { isDeepStrictEqual } from 'node:util';
import { reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import { digestOf } from '../../platform/digest.ts';
import type { Log, LogFields } from '../../platform/log.ts';
import { Observable } from '../../platform/subscription.ts';
import { fleetError } from '../trouble.ts';
import { findIdentity, type IdentitySettings, type IdentityText, readSmallFile } from './kubelet-files.ts';

export interface Identity {
  /** The name of the own Node. */
  readonly node: string;
  readonly authorities: readonly X509Certificate[];
  /** With `fleet.auth = "keys"`: names of nodes by fingerprint. Then no authority counts. */
  readonly keys?: ReadonlyMap<string, string>;
  /** This node's key in `keys`. */
  readonly fingerprint?: string;
  /** Names of nodes and `sha256:…` of certificates that are refused. */
  readonly exclude: readonly string[];
  /** TLS 1.3 only, without tickets. */
  readonly options: SecureContextOptions;
  /** The end that calls uses it. */
  readonly context: SecureContext;
}

interface ReadIdentity {
  readonly identity: Identity;
  /** A change of one of them is a change of the identity. */
  readonly files: readonly string[];
  /** One line for the log, when it is used from now on. */
  readonly used: string;
  readonly fields: LogFields;
}

/** What is read is whole, and makes no identity: an earlier one must not stay in use. */
interface RefusedIdentity {
  readonly refusal: unknown;
  readonly files: readonly string[];
}

/** How a node proves who it is. */
export interface IdentityWay {
  /** Begins the line of a fault. */
  readonly what: string;
  /** Ends it while an earlier identity stays in use. */
  readonly kept: string;
  /** Those that are known before they are read. */
  readonly files?: readonly string[];
  /** One that people copy: other content counts once it has stayed the same between two looks. */
  readonly copied?: string;
  /** @throws AppError `fleet/identity`: which file is missing or can't be used */
  read(signal: AbortSignal): Promise<ReadIdentity | RefusedIdentity>;
}

/** `fleet.auth = "kubelet"`. @param root for tests; default `/` */
export function byKubelet(settings: IdentitySettings, root?: string): IdentityWay {
  return {
    what: "The kubelet's certificate",
    kept: 'the certificate from before stays in use',
    read: async (signal) => {
      const text = await findIdentity(settings, signal, root);
      const { certificateFrom, authoritiesFrom, files } = text;
      const identity = identityOf(text, settings.exclude);
      const used = `This node is ${identity.node} by ${certificateFrom}, and believes the authorities of ${authoritiesFrom}`;
      return { identity, files, used, fields: { certificateFrom, authoritiesFrom } };
    },
  };
}

interface IdentityKeeperOptions {
  readonly way: IdentityWay;
  readonly clock: Clock;
  readonly log: Log;
  /** Called for each identity that is used from a later time on than the begin of `run`. */
  readonly onOther?: () => void;
}

/** Kubelets renew their certificates hours before they end. */
const REFRESH_MS = 10_000;

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Who this node is, by files that may change. Notifies of {@link IdentityKeeper.fault}. */
export class IdentityKeeper extends Observable {
  private identity: Identity | undefined;
  private files: readonly string[];
  private seen: string | undefined;
  /** At the last look. */
  private looked: string | undefined;
  /** Was logged last. */
  private trouble: string | undefined;

  constructor(private readonly options: IdentityKeeperOptions) {
    super();
    this.files = options.way.files ?? [];
  }

  /** Undefined until the files can be used. */
  current(): Identity | undefined {
    return this.identity;
  }

  /** Why the files can't be used, and what follows; undefined while they can. */
  fault(): string | undefined {
    const next = this.identity === undefined ? 'no other node is reached before that is mended' : this.options.way.kept;
    return this.trouble && `${this.trouble}; ${next}`;
  }

  /** Refreshes every 10 s until `signal` aborts. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const before = this.identity;
      await this.refresh(signal);
      if (this.identity !== before) this.options.onOther?.();
      await this.options.clock.sleep(REFRESH_MS, signal).catch(() => undefined);
    }
  }

  /**
   * Reads changed files again. Errors are logged. The last good identity stays in use while new
   * files can't be read, as during a rotation.
   */
  async refresh(signal: AbortSignal): Promise<void> {
    const { way, log } = this.options;
    // Read before the files: a change in between is noticed the next time.
    const seen = await stateOf(this.files, way.copied);
    const isCopying = way.copied !== undefined && seen !== this.looked;
    this.looked = seen;
    const isUsed = seen === this.seen && this.trouble === undefined;
    if (this.identity !== undefined && (isUsed || isCopying)) return;
    try {
      const read = await way.read(signal);
      this.seen = isDeepStrictEqual(read.files, this.files) ? seen : await stateOf(read.files, way.copied);
      this.files = read.files;
      if ('refusal' in read) {
        this.identity = undefined;
        throw read.refusal;
      }
      if (this.trouble !== undefined) {
        this.trouble = undefined;
        this.notify();
      }
      if (isSame(this.identity, read.identity)) return;
      this.identity = read.identity;
      log.info(read.fields, read.used);
    } catch (error) {
      if (!signal.aborted) this.logTrouble(error);
    }
  }

  private logTrouble(error: unknown): void {
    const trouble = reasonOf(error);
    if (trouble === this.trouble) return;
    this.trouble = trouble;
    this.options.log.warn({ err: error }, `${this.options.way.what} can't be used: ${this.fault()}`);
    this.notify();
  }
}

/** A list that was written again as it was must not end transfers. */
function isSame(before: Identity | undefined, next: Identity): boolean {
  if (before?.keys === undefined || next.keys === undefined) return false;
  return isDeepStrictEqual([before.node, before.keys, before.options.key], [next.node, next.keys, next.options.key]);
}

/**
 * Changes when a file is replaced or rewritten, also behind a link. The content of the copied one
 * counts, since a program may write it again and again as it is.
 */
async function stateOf(files: readonly string[], copied?: string): Promise<string> {
  const states = await Promise.all(
    files.map((file) =>
      file === copied
        ? readSmallFile(file, { mayOthersWrite: false }).then((text) => digestOf(Buffer.from(text)), reasonOf)
        : stat(file, { bigint: true }).then(
            ({ dev, ino, size, mtimeNs, ctimeNs }) => [dev, ino, size, mtimeNs, ctimeNs].join(':'),
            () => 'absent',
          ),
    ),
  );
  return states.join(' ');
}

/**
 * Reads the identity once, for a check.
 *
 * @returns with the end of its validity in milliseconds since the epoch
 * @throws AppError `fleet/identity`: which file is missing or can't be used
 */
export async function readIdentity(
  settings: IdentitySettings,
  signal: AbortSignal,
  root?: string,
): Promise<{ readonly identity: Identity; readonly validUntil: number }> {
  const text = await findIdentity(settings, signal, root);
  const [leaf] = certificatesOf(text.certificate);
  return { identity: identityOf(text, settings.exclude), validUntil: Date.parse(leaf?.validTo ?? '') };
}

function identityOf(text: IdentityText, exclude: readonly string[] = []): Identity {
  const { certificateFrom, authoritiesFrom } = text;
  const own = certificatesOf(text.certificate);
  const [leaf] = own;
  if (leaf === undefined) throw fleetError('fleet/identity', `${certificateFrom} has no certificate in PEM`);
  const node = nodeOf(leaf);
  if (node === undefined) {
    const message = `${certificateFrom} is no certificate of a kubelet: it is for ${subjectText(leaf)}; set fleet.kubeconfig`;
    throw fleetError('fleet/identity', message);
  }
  if (!leaf.checkPrivateKey(privateKey(text))) {
    throw fleetError('fleet/identity', `${certificateFrom} does not fit to its key`);
  }
  const authorities = certificatesOf(text.authorities);
  if (authorities.length === 0) {
    throw fleetError('fleet/identity', `${authoritiesFrom} has no certificate in PEM; set fleet.client_ca`);
  }
  const pair = { cert: own.map(String).join(''), key: text.key, ca: authorities.map(String) };
  return { node, authorities, exclude, ...optionsOf(pair) };
}

/** @param pair in PEM */
export function optionsOf(pair: Pick<SecureContextOptions, 'cert' | 'key' | 'ca'>) {
  const options = { ...pair, minVersion: 'TLSv1.3', secureOptions: constants.SSL_OP_NO_TICKET } as const;
  return { options, context: createSecureContext(options) };
}

function privateKey({ key, certificateFrom }: IdentityText) {
  try {
    return createPrivateKey(key);
  } catch (error) {
    throw fleetError('fleet/identity', `the key beside ${certificateFrom} can't be used: ${reasonOf(error)}`);
  }
}

/** Unreadable certificates are skipped. */
function certificatesOf(pem: string): X509Certificate[] {
  return (pem.match(CERTIFICATE) ?? []).flatMap((block) => {
    try {
      return [new X509Certificate(block)];
    } catch {
      return [];
    }
  });
}

/** Why the other end is not accepted as a node of this cluster. */
export type RefusalCause =
  | 'no-certificate'
  | 'foreign'
  | 'unlisted'
  | 'authority-expired'
  | 'expired'
  | 'not-yet-valid'
  | 'wrong-use'
  | 'wrong-subject'
  | 'wrong-node'
  | 'removed'
  | 'resumed';

interface NodeVerdict {
  readonly kind: 'node';
  readonly node: string;
  /** `sha256:…` */
  readonly certificate: string;
}

/** `reason` continues a sentence that names the certificate. */
export type PeerVerdict =
  | NodeVerdict
  | { readonly kind: 'refused'; readonly cause: RefusalCause; readonly reason: string };

/** `authorized` and `authorizationError` of a `TLSSocket`. */
export interface ChainProof {
  readonly authorized: boolean;
  readonly error: unknown;
}

/** RFC 5280, section 4.2.1.12. */
const CLIENT_AUTH = '1.3.6.1.5.5.7.3.2';
const ANY_USE = '2.5.29.37.0';

/** Certificates between a node and its authority. */
const MOST_INTERMEDIATES = 4;

/** The name of a Node is a DNS subdomain (RFC 1123). */
export const NODE_NAME = /^[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?$/;

/**
 * Judges a certificate as kube-apiserver does for a kubelet: signed by one of the authorities,
 * valid now, for use by a client, and with the subject of a node (kubernetes.io, "Using Node
 * Authorization").
 *
 * @param leaf with the other certificates that were sent as its `issuerCertificate`
 * @param now milliseconds since the epoch
 * @param proof for the end that was called: OpenSSL's verdict about the chain, which must be good,
 *   since Node.js shows no certificates in between. The calling end has no such verdict: for
 *   OpenSSL a kubelet's certificate is not for use by a server.
 */
export function checkPeer(
  leaf: X509Certificate | undefined,
  authorities: readonly X509Certificate[],
  now: number,
  proof?: ChainProof,
): PeerVerdict {
  if (leaf === undefined) return refused('no-certificate', 'sent no certificate');
  const chain = proof?.authorized === true ? timeFault(leaf, now) : chainFault(leaf, authorities, now);
  const fault = chain ?? useFault(leaf) ?? proofFault(proof);
  if (fault !== undefined) return fault;
  const node = nodeOf(leaf);
  if (node !== undefined) return { kind: 'node', node, certificate: hashOf(leaf) };
  return refused('wrong-subject', `is no node: its certificate is for ${subjectText(leaf)}`);
}

function hashOf({ fingerprint256 }: X509Certificate): string {
  return `sha256:${fingerprint256.replaceAll(':', '').toLowerCase()}`;
}

/** @param exclude `fleet.exclude` */
export function remaining(verdict: NodeVerdict, exclude: readonly string[]): PeerVerdict {
  const named = [verdict.node, verdict.certificate].find((one) => exclude.includes(one));
  return named === undefined ? verdict : refused('removed', `is ${verdict.node}, and fleet.exclude has ${named}`);
}

/** Undefined for any other subject than a kubelet. */
export function nodeOf({ subject }: X509Certificate): string | undefined {
  const parts = subject?.split('\n') ?? [];
  const node = parts.find((part) => part.startsWith('CN=system:node:'))?.slice('CN=system:node:'.length);
  const isNode = parts.length === 2 && parts.includes('O=system:nodes') && node !== undefined && NODE_NAME.test(node);
  return isNode ? node : undefined;
}

/** Returns one line: `O=system:masters, CN=admin`. */
function subjectText({ subject }: X509Certificate): string {
  return subject?.split('\n').join(', ') || 'nobody';
}

export function refused(cause: RefusalCause, reason: string): PeerVerdict & { kind: 'refused' } {
  return { kind: 'refused', cause, reason };
}

function chainFault(leaf: X509Certificate, authorities: readonly X509Certificate[], now: number) {
  let current = leaf;
  for (let step = 0; step <= MOST_INTERMEDIATES; step += 1) {
    const fault = timeFault(current, now);
    if (fault !== undefined) return fault;
    const signers = authorities.filter((authority) => authority.ca && isSignedBy(current, authority));
    if (signers.some((authority) => timeFault(authority, now) === undefined)) return undefined;
    if (signers.length > 0) return refused('authority-expired', `was signed by ${authorityFault(signers)}`);
    const next = current.issuerCertificate;
    if (next === undefined || !next.ca || !isSignedBy(current, next)) break;
    current = next;
  }
  return refused('foreign', `was signed by '${issuerText(leaf)}', which is no authority of this cluster`);
}

function authorityFault([first]: readonly X509Certificate[]): string {
  return `'${first === undefined ? '' : subjectText(first)}', which is valid from ${first?.validFrom} to ${first?.validTo} only`;
}

function issuerText({ issuer }: X509Certificate): string {
  return issuer?.split('\n').join(', ') ?? '';
}

/** Both throw for keys that OpenSSL does not know. */
function isSignedBy(certificate: X509Certificate, issuer: X509Certificate): boolean {
  try {
    return certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);
  } catch {
    return false;
  }
}

function timeFault({ validFrom, validTo }: X509Certificate, now: number) {
  if (!(Date.parse(validTo) >= now)) return refused('expired', `has a certificate that ended on ${validTo}`);
  if (!(Date.parse(validFrom) <= now)) {
    return refused('not-yet-valid', `has a certificate that begins on ${validFrom}; check the clocks of both nodes`);
  }
  return undefined;
}

function proofFault(proof: ChainProof | undefined) {
  if (proof === undefined || proof.authorized) return undefined;
  return refused('foreign', `has a certificate that was not accepted: ${reasonOf(proof.error)}`);
}

/** A certificate that lacks the extension is for every use. */
function useFault({ keyUsage }: X509Certificate) {
  if (keyUsage === undefined || keyUsage.includes(CLIENT_AUTH) || keyUsage.includes(ANY_USE)) return undefined;
  return refused('wrong-use', "has a certificate that is not a kubelet's client certificate");
}

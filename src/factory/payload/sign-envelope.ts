import { type ChildProcess, spawn } from 'node:child_process';
import { generateKeyPairSync, sign } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { readdir, rm, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { bundleError } from '../../bundle/bundle-error.ts';
import {
  type Envelope,
  type EnvelopeSignature,
  formatEnvelope,
  PAYLOAD_TYPE,
  preAuthenticationEncoding,
} from '../../bundle/format/dsse.ts';
import { parsePayload } from '../../bundle/format/schema.ts';
import {
  isSignatureBy,
  type PrivateKey,
  type PublicKey,
  parsePublicKey,
  type SignatureAlgorithm,
} from '../../bundle/keys/keys.ts';
import { isBundleTar, openBundle } from '../../bundle/read/open-bundle.ts';
import { readEnvelope } from '../../bundle/verify/judge-bundle.ts';
import { volumesIn } from '../../bundle/verify/open-volumes.ts';
import { type AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { linkSignals } from '../../platform/async/abort.ts';
import { writeNewFile } from '../../platform/files/durable-file.ts';
import { formatDuration } from '../../platform/sizes.ts';
import { checkSpace, replaceOutput } from '../output/staging.ts';
import { copyTarWithEnvelope } from '../output/volumes.ts';

export function unsignedEnvelope(payload: Buffer): Envelope {
  return { payloadType: PAYLOAD_TYPE, payload, signatures: [] };
}

/** The signature goes to the end; an earlier one by the same key is replaced. */
export function signEnvelope(envelope: Envelope, key: PrivateKey): Envelope {
  return withSignature(envelope, { keyId: key.keyId, signature: makeSignature(key, coveredBy(envelope)) });
}

/** @throws AppError `bundle/signer` (`reject`) */
export async function signatureOver(
  envelope: Envelope,
  key: SigningKey,
  signal: AbortSignal,
): Promise<EnvelopeSignature> {
  return { keyId: key.keyId, signature: await signMessage(key, coveredBy(envelope), signal) };
}

export function withSignature(envelope: Envelope, signature: EnvelopeSignature): Envelope {
  const others = envelope.signatures.filter(({ keyId }) => keyId !== signature.keyId);
  return { ...envelope, signatures: [...others, signature] };
}

function coveredBy({ payloadType, payload }: Envelope): Buffer {
  return preAuthenticationEncoding(payloadType, payload);
}

/**
 * Signs the bundle at `path`, or every volume `path/1`, `path/2` …, using the key once. Signing
 * again is no harm. @returns the signed paths, and their envelope
 *
 * @throws AppError as {@link signBundle}; `bundle/inconsistent` for volumes of different bundles
 */
export async function signVolumes(
  path: string,
  key: SigningKey,
  signal: AbortSignal,
): Promise<{ readonly paths: readonly string[]; readonly envelope: Envelope }> {
  const volumes = await volumesOf(path);
  const [first, ...others] = volumes;
  if (first === undefined) return { paths: [path], envelope: await signBundle(path, key, signal) };
  const envelope = await readEnvelope(openBundle(first), signal);
  for (const other of others) {
    if ((await readEnvelope(openBundle(other), signal)).payload.equals(envelope.payload)) continue;
    const message = `${first} and ${other} are not volumes of one bundle: sign each bundle by itself`;
    throw bundleError('bundle/inconsistent', message);
  }
  const signature = await signatureOver(envelope, key, signal);
  for (const volume of others) {
    await writeSignature(volume, await readEnvelope(openBundle(volume), signal), signature, signal);
  }
  return { paths: volumes, envelope: await writeSignature(first, envelope, signature, signal) };
}

/** A bundle or a file has no volumes. */
async function volumesOf(path: string): Promise<string[]> {
  const names = await readdir(path).catch(() => []); // reading the bundle reports what is wrong
  return names.some((name) => name.toLowerCase() === 'bundle.dsse.json') ? [] : volumesIn(path);
}

/**
 * Replaces `bundle.dsse.json` atomically. A tar file is rewritten whole, beside the old one.
 *
 * @throws AppError `bundle/absent`, `bundle/envelope`, `bundle/payload` when it is not a bundle;
 *   `bundle/target`, `bundle/no-space`; `bundle/signer`
 */
export async function signBundle(path: string, key: SigningKey, signal: AbortSignal): Promise<Envelope> {
  const envelope = await readEnvelope(openBundle(path), signal);
  return writeSignature(path, envelope, await signatureOver(envelope, key, signal), signal);
}

async function writeSignature(
  path: string,
  envelope: Envelope,
  signature: EnvelopeSignature,
  signal: AbortSignal,
): Promise<Envelope> {
  const { created } = parsePayload(envelope.payload);
  const signed = withSignature(envelope, signature);
  const bytes = formatEnvelope(signed);
  signal.throwIfAborted();
  if (isBundleTar(path)) {
    await checkSpace(dirname(resolve(path)), (await stat(path)).size);
    await replaceOutput(path, (temporary) => copyTarWithEnvelope(path, temporary, { bytes, created }, signal));
  } else {
    await replaceOutput(join(path, 'bundle.dsse.json'), (temporary) => writeNewFile(temporary, bytes));
  }
  return signed;
}

/** Writes both PEM files or none; overwrites nothing. @throws `bundle/option`, `bundle/target` */
export async function generateKey(prefix: string, algorithm: SignatureAlgorithm) {
  if (prefix.endsWith('/') || ['', '.', '..'].includes(basename(prefix))) {
    throw bundleError('bundle/option', `--out '${prefix}' has no file name: give a prefix as ./factory-2026`);
  }
  const { publicKey, privateKey } =
    algorithm === 'ed25519' ? generateKeyPairSync('ed25519') : generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  const publicPem = publicKey.export({ type: 'spki', format: 'pem' }).toString();
  const privatePem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  const [privatePath, publicPath] = [`${prefix}.key`, `${prefix}.pub`];
  await writeNew(privatePath, privatePem, 0o600);
  try {
    await writeNew(publicPath, publicPem, 0o644);
  } catch (error) {
    await rm(privatePath, { force: true });
    throw error;
  }
  return { keyId: parsePublicKey(publicPem, publicPath).keyId, algorithm, privatePath, publicPath };
}

async function writeNew(path: string, text: string, mode: number): Promise<void> {
  try {
    await writeNewFile(path, text, { mode });
  } catch (cause) {
    // A file that was written in part is not a key.
    if (systemCodeOf(cause) !== 'EEXIST') await rm(path, { force: true }).catch(() => undefined);
    const why =
      systemCodeOf(cause) === 'EEXIST' ? 'it exists already, and keys are never overwritten' : reasonOf(cause);
    throw bundleError('bundle/target', `${path} can't be written: ${why}`, { cause });
  }
}

/**
 * Kills a process and all that it and its children have started (proc(5)), but no orphan.
 *
 * INVARIANTS: a process is stopped before its children are listed, so that it starts no more, and
 * its number is not given to another one.
 */
function killTree(pid: number): void {
  const stopped = new Set<number>();
  for (let found = [pid]; found.length > 0; found = childrenOf(stopped).filter((one) => !stopped.has(one))) {
    for (const one of found) {
      send(one, 'SIGSTOP');
      stopped.add(one);
    }
  }
  for (const one of stopped) send(one, 'SIGKILL');
}

function childrenOf(parents: ReadonlySet<number>): number[] {
  const pids = readdirSync('/proc').flatMap((name) => (/^[0-9]+$/.test(name) ? [Number(name)] : []));
  return pids.filter((pid) => parents.has(parentOf(pid)));
}

/** Follows the state, behind the name in brackets. */
function parentOf(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch {
    return 0; // gone
  }
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // The process has already ended.
  }
}

interface SignerCommand {
  readonly command: string;
  readonly timeoutMs: number;
  /**
   * The command keeps the terminal, to read a PIN, and shows its messages. Otherwise it runs in its
   * own process group, which is stopped as a whole.
   */
  readonly isInteractive: boolean;
}

/** Signatures of bundle format 1 have at most 72 bytes. */
const MAX_OUTPUT_BYTES = 4096;
const MAX_MESSAGE_BYTES = 4096;

/**
 * The command reads a message from stdin and writes the bytes of a signature to stdout.
 *
 * @throws AppError `bundle/signer` when it can't be started, fails, takes too long, or writes
 *   nothing or too much; whatever aborted `signal`
 */
export async function runSigner(signer: SignerCommand, message: Buffer, signal: AbortSignal): Promise<Buffer> {
  signal.throwIfAborted();
  const { command, isInteractive, timeoutMs } = signer;
  const child = spawn('/bin/sh', ['-c', command], {
    stdio: ['pipe', 'pipe', isInteractive ? 'inherit' : 'pipe'],
    detached: !isInteractive,
  });
  const either = linkSignals([signal, AbortSignal.timeout(timeoutMs)]);
  const ended = await outcomeOf(child, message, either.signal).finally(either.release);
  if (ended.kind === 'stopped') stop(child, isInteractive);
  signal.throwIfAborted();
  if (ended.kind === 'done') return ended.output;
  throw failed(ended.kind === 'stopped' ? (ended.why ?? tooSlow(timeoutMs)) : ended.why);
}

type Outcome =
  | { readonly kind: 'done'; readonly output: Buffer }
  /** It may still run. `why` is absent after an abort. */
  | { readonly kind: 'stopped'; readonly why?: string }
  | { readonly kind: 'failed'; readonly why: string };

/** After an abort, this does not wait for children that keep the output open. */
function outcomeOf(child: ChildProcess, message: Buffer, stopSignal: AbortSignal): Promise<Outcome> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let sizeBytes = 0;
    let errors = '';
    child.stdout?.on('data', (chunk: Buffer) => {
      sizeBytes += chunk.length;
      if (sizeBytes <= MAX_OUTPUT_BYTES) chunks.push(chunk);
      else resolve({ kind: 'stopped', why: `wrote more than ${MAX_OUTPUT_BYTES} bytes, which is no signature` });
    });
    child.stderr?.on('data', (chunk: Buffer) => {
      errors = `${errors}${chunk.toString('utf8')}`.slice(-MAX_MESSAGE_BYTES);
    });
    child.on('error', (error) => resolve({ kind: 'failed', why: `can't be started: ${reasonOf(error)}` }));
    child.on('close', (code, killedBy) => resolve(endOf(code, killedBy, Buffer.concat(chunks), errors)));
    stopSignal.addEventListener('abort', () => resolve({ kind: 'stopped' }), { once: true });
    // A command that does not read all breaks the pipe; its exit code says more.
    child.stdin?.on('error', () => undefined);
    child.stdin?.end(message);
  });
}

/** Faults of a token in PKCS #11. The last line of pkcs11-tool is `Aborting.` */
const TOKEN_FAULTS: readonly (readonly [RegExp, string])[] = [
  [
    /CKR_PIN_(?:INCORRECT|INVALID|LEN_RANGE)/,
    'the PIN of the token is wrong (CKR_PIN_INCORRECT); check it before the next try, since a token locks itself after a few',
  ],
  [/CKR_PIN_LOCKED/, 'the PIN of the token is locked (CKR_PIN_LOCKED); unlock it with the PUK or SO PIN'],
  [/CKR_TOKEN_NOT_PRESENT/, 'the token is not there (CKR_TOKEN_NOT_PRESENT); plug it in'],
  [/CKR_USER_NOT_LOGGED_IN/, 'the token needs its PIN (CKR_USER_NOT_LOGGED_IN); the command must log in with it'],
];

function endOf(code: number | null, killedBy: string | null, output: Buffer, errors: string): Outcome {
  const lastLine = errors.trim().split('\n').at(-1) ?? '';
  const [, advice = lastLine] = TOKEN_FAULTS.find(([pattern]) => pattern.test(errors)) ?? [];
  const last = advice === '' ? '' : `: ${advice}`;
  if (code !== 0) return { kind: 'failed', why: `ended with ${killedBy ?? `exit code ${code}`}${last}` };
  if (output.length === 0) return { kind: 'failed', why: `wrote nothing to its standard output${last}` };
  return { kind: 'done', output };
}

function tooSlow(timeoutMs: number): string {
  return `gave no signature within ${formatDuration(timeoutMs)} and was stopped; --signer-timeout gives it more time`;
}

function failed(why: string): AppError {
  return bundleError('bundle/signer', `the command of --signer ${why}; nothing was signed`);
}

function stop(child: ChildProcess, isInteractive: boolean): void {
  for (const stream of child.stdio) stream?.destroy();
  child.unref();
  if (child.pid === undefined) return;
  if (isInteractive) {
    killTree(child.pid);
    return;
  }
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // The process has already ended.
  }
}

/** Ed25519, or ECDSA P-256 with SHA-256 in DER. */
function makeSignature({ algorithm, key }: PrivateKey, covered: Uint8Array): Buffer {
  return algorithm === 'ed25519' ? sign(null, covered, key) : sign('sha256', covered, { key, dsaEncoding: 'der' });
}

/** Another program has the private half, for example a hardware security module. */
export interface RemoteKey extends PublicKey {
  readonly signRemotely: (message: Buffer, signal: AbortSignal) => Promise<Buffer>;
}

export type SigningKey = PrivateKey | RemoteKey;

/** @throws AppError `bundle/signer` without a signature that fits the public key */
async function signMessage(key: SigningKey, message: Buffer, signal: AbortSignal): Promise<Buffer> {
  if (!('signRemotely' in key)) return makeSignature(key, message);
  const signature = await key.signRemotely(message, signal);
  signal.throwIfAborted();
  if (await isSignatureBy(key, signature, message)) return signature;
  throw unfit(key, signature);
}

function unfit({ algorithm, keyId }: PublicKey, signature: Buffer): AppError {
  const hint = isText(signature)
    ? 'it gave text, but must give the bytes of the signature, neither as base64 nor as hex'
    : algorithm === 'ecdsa-p256' && signature.length === 64
      ? 'it gave 64 bytes, which may be r and s one after the other, but must give the signature in DER, as pkcs11-tool does with --signature-format openssl'
      : `does the command use the private key of the file of --signer-key, and does it sign its standard input with ${algorithm === 'ed25519' ? 'Ed25519' : 'ECDSA and SHA-256'}`;
  const message = `the ${signature.length} bytes of the command of --signer are not a signature by key ${keyId.slice(0, 12)}…: ${hint}; nothing was signed`;
  return bundleError('bundle/signer', message);
}

function isText(bytes: Buffer): boolean {
  return /^[\x20-\x7e\r\n]+$/.test(bytes.toString('latin1'));
}

import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
  X509Certificate,
} from 'node:crypto';
import { hostname } from 'node:os';
import { join } from 'node:path';
import type { Settings } from '../../domain/settings/settings.ts';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { digestOf } from '../../platform/digest.ts';
import { readIfPresent, replaceFile } from '../../platform/files/durable-file.ts';
import type { Log } from '../../platform/log.ts';
import { clip } from '../../platform/plain-text.ts';
import { fleetError } from '../trouble.ts';
import { type Identity, type IdentityWay, NODE_NAME, optionsOf, type PeerVerdict, refused } from './identity.ts';
import { readSmallFile } from './kubelet-files.ts';

type KeySettings = Pick<Settings['fleet'], 'keys_file' | 'exclude'>;

/** So many nodes are remembered of a cluster, too. */
const MOST_KEYS = 5_000;

/** The private key, in PKCS #8. */
function keyFileIn(stateDir: string): string {
  return join(stateDir, 'key.pem');
}

/** `fleet.auth = "keys"`. Makes the key of this node where there is none. */
export function byKeys(settings: KeySettings, stateDir: string, log: Log): IdentityWay {
  const path = keyFileIn(stateDir);
  return {
    what: 'The key of this node, or the list of keys,',
    kept: 'the keys from before stay in use',
    files: [path, settings.keys_file],
    copied: settings.keys_file,
    read: async (signal) => {
      const files = [path, settings.keys_file];
      const list = await readKeys(settings.keys_file).catch((error: unknown) => error);
      try {
        const identity = identityOfKey(settings, await ownKey(path, log, signal), list);
        const used = `This node is ${identity.node} by its key, and knows those of ${settings.keys_file}`;
        return { identity, files, fields: {}, used };
      } catch (error) {
        // A removal counts at once. While a list is wrong, the one before counts.
        if (!(list instanceof Map)) throw error;
        return { refusal: error, files };
      }
    },
  };
}

/** A damaged key is replaced: nobody can say what it was. One that can't be read stays. */
async function ownKey(path: string, log: Log, signal: AbortSignal): Promise<KeyObject> {
  const kept = await readKey(path);
  if (kept.kind === 'key') return kept.key;
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  await replaceFile({ path, mode: 0o600 }, privateKey.export({ type: 'pkcs8', format: 'pem' }), signal);
  const line = keyLine(privateKey, nameOfHost());
  const next = `Its line for fleet.keys_file, on all nodes, is '${line}'`;
  if (kept.kind === 'absent') log.info({}, `This node has a new key. ${next}`);
  else log.warn({}, `${path} was damaged (${kept.why}), so this node has a new key. ${next}, instead of that before`);
  return privateKey;
}

type KeptKey =
  | { readonly kind: 'key'; readonly key: KeyObject }
  | { readonly kind: 'absent' }
  | { readonly kind: 'damaged'; readonly why: string };

/** @throws AppError `fleet/identity` where it can't be read */
async function readKey(path: string): Promise<KeptKey> {
  const text = await readIfPresent(path).catch((cause: unknown) => {
    throw fleetError('fleet/identity', `${path} can't be read: ${reasonOf(cause)}`, { cause });
  });
  if (text === undefined) return { kind: 'absent' };
  try {
    const key = createPrivateKey(text);
    if (key.asymmetricKeyDetails?.namedCurve === 'prime256v1') return { kind: 'key', key };
    return { kind: 'damaged', why: 'it has no key of the curve P-256' };
  } catch (error) {
    return { kind: 'damaged', why: reasonOf(error) };
  }
}

/**
 * Reads who this node is, and makes no key.
 *
 * @throws AppError `fleet/identity`
 */
export async function readKeysIdentity(settings: KeySettings, stateDir: string): Promise<Identity> {
  const list = await readKeys(settings.keys_file).catch((error: unknown) => error);
  return identityOfKey(settings, await keyIn(stateDir), list);
}

/** A line of `fleet.keys_file` for this node. @throws AppError `fleet/identity` */
export async function ownKeyLine({ keys_file }: KeySettings, stateDir: string): Promise<string> {
  const key = await keyIn(stateDir);
  const keys = await readKeys(keys_file).catch(() => undefined);
  return keyLine(key, keys?.get(fingerprintOf(key)) ?? nameOfHost());
}

async function keyIn(stateDir: string): Promise<KeyObject> {
  const path = keyFileIn(stateDir);
  const kept = await readKey(path);
  if (kept.kind === 'key') return kept.key;
  const why = kept.kind === 'absent' ? 'is not there' : `is damaged: ${kept.why}`;
  throw fleetError(
    'fleet/identity',
    `${path} ${why}; stickpin-fleet.service makes it with fleet.enabled = true and fleet.auth = "keys"`,
    { disposition: 'wait' },
  );
}

/** @param list the names of nodes by fingerprint, or why the list can't be read */
function identityOfKey({ keys_file, exclude }: KeySettings, key: KeyObject, list: unknown): Identity {
  if (!(list instanceof Map)) {
    const isAbsent = list instanceof Error && systemCodeOf(list.cause) === 'ENOENT';
    const next = isAbsent ? `; ${toAdd(key)}` : '';
    throw fleetError('fleet/identity', `${reasonOf(list)}${next}`, { cause: list });
  }
  const keys: ReadonlyMap<string, string> = list;
  const node = keys.get(fingerprintOf(key));
  if (node === undefined) {
    const [old] = [...keys].find(([, name]) => name === nameOfHost()) ?? [];
    const instead = old === undefined ? '' : `, instead of that with ${old}, which is another key`;
    throw fleetError('fleet/identity', `${keys_file} does not list this node: ${toAdd(key)}${instead}`);
  }
  const pair = { cert: certificateOf(key), key: String(key.export({ type: 'pkcs8', format: 'pem' })) };
  return { node, authorities: [], keys, fingerprint: fingerprintOf(key), exclude, ...optionsOf(pair) };
}

function toAdd(key: KeyObject): string {
  return `it needs the line '${keyLine(key, nameOfHost())}', on all nodes`;
}

function keyLine(key: KeyObject, node: string): string {
  return `${fingerprintOf(key)} ${node}`;
}

/** In a form that the list takes: Linux also takes host names as `Host_1`. */
export function nameOfHost(host = hostname()): string {
  return (
    host
      .toLowerCase()
      .replace(/[^a-z0-9]*[^-a-z0-9.][^a-z0-9]*/g, '-')
      .replace(/^[-.]+|[-.]+$/g, '') || 'node'
  );
}

/** `sha256:…` of the public key, as SubjectPublicKeyInfo (RFC 5280, section 4.1). */
function fingerprintOf(key: KeyObject): string {
  const own = key.type === 'private' ? createPublicKey(key) : key;
  return digestOf(own.export({ type: 'spki', format: 'der' }));
}

async function readKeys(path: string): Promise<ReadonlyMap<string, string>> {
  return parseKeys(await readSmallFile(path, { mayOthersWrite: false }), path);
}

/**
 * Names of nodes by the fingerprints of their keys. A node may have several keys, as while one is
 * replaced; a key has one node.
 *
 * @throws AppError `fleet/identity`: the first line that is wrong
 */
export function parseKeys(text: string, path: string): ReadonlyMap<string, string> {
  const keys = new Map<string, string>();
  if (text.includes('\0')) {
    throw fleetError('fleet/identity', `${path} is no UTF-8 text, as a file of PowerShell: write it again as UTF-8`);
  }
  // The name in its last line may be cut off, and a copy begins with an empty file.
  if (!text.endsWith('\n')) {
    throw fleetError('fleet/identity', `${path} is empty or does not end with a line break: write it again, whole`);
  }
  for (const [at, line] of text.split('\n').entries()) {
    if (/^\s*(?:#|$)/.test(line)) continue;
    const wrong = (what: string) => fleetError('fleet/identity', `line ${at + 1} of ${path} ${what}`);
    const [, key = '', name = ''] = /^\s*(sha256:[0-9a-f]{64})[ \t]+(\S+)\s*$/.exec(line) ?? [];
    if (key === '') {
      throw wrong("must be sha256:<64 lower-case hex digits> and the name of a node, as from 'stickpin fleet key'");
    }
    if (!NODE_NAME.test(name)) {
      throw wrong(`has the name ${clip(name, 64)}: a node has lower-case letters, digits, hyphens and full stops only`);
    }
    if (keys.has(key) && keys.get(key) !== name) throw wrong(`gives ${name} the key of ${keys.get(key)}`);
    if (keys.size >= MOST_KEYS) throw wrong(`is one too many: at most ${MOST_KEYS} keys can be listed`);
    keys.set(key, name);
  }
  return keys;
}

/** INVARIANT: the list alone names the node, never its certificate, whose times mean nothing. */
export function checkKey(leaf: X509Certificate | undefined, keys: ReadonlyMap<string, string>): PeerVerdict {
  if (leaf === undefined) return refused('no-certificate', 'sent no certificate');
  const certificate = keyOf(leaf);
  const node = keys.get(certificate ?? '');
  if (certificate !== undefined && node !== undefined) return { kind: 'node', node, certificate };
  return refused('unlisted', `has the key ${certificate ?? 'of an unknown kind'}, which fleet.keys_file does not list`);
}

/** OpenSSL does not know each kind of key. */
function keyOf(leaf: X509Certificate): string | undefined {
  try {
    return fingerprintOf(leaf.publicKey);
  } catch {
    return undefined;
  }
}

/** Tags of DER (X.690). */
const [INTEGER, BITS, OID, UTF8, UTC_TIME, TIME, SEQUENCE, SET, VERSION] = [2, 3, 6, 12, 0x17, 0x18, 0x30, 0x31, 0xa0];

/**
 * A certificate that the key signed itself (RFC 5280), in PEM. TLS needs one; it says nothing but
 * the key, and never ends.
 */
function certificateOf(key: KeyObject): string {
  const ecdsaWithSha256 = der(SEQUENCE, der(OID, Buffer.from('2a8648ce3d040302', 'hex')));
  const commonName = der(OID, Buffer.from('550403', 'hex'));
  const name = der(SEQUENCE, der(SET, der(SEQUENCE, commonName, der(UTF8, Buffer.from('stickpin')))));
  const times = [der(UTC_TIME, Buffer.from('000101000000Z')), der(TIME, Buffer.from('99991231235959Z'))];
  const publicKey = createPublicKey(key).export({ type: 'spki', format: 'der' });
  const version = der(VERSION, der(INTEGER, Buffer.of(2)));
  const serial = der(INTEGER, Buffer.of(1));
  const content = der(SEQUENCE, version, serial, ecdsaWithSha256, name, der(SEQUENCE, ...times), name, publicKey);
  const signature = der(BITS, Buffer.of(0), sign('sha256', content, key));
  return new X509Certificate(der(SEQUENCE, content, ecdsaWithSha256, signature)).toString();
}

/** At most 65,535 bytes. */
function der(tag: number, ...parts: readonly Buffer[]): Buffer {
  const { length } = Buffer.concat(parts);
  const long = length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.of(tag, ...(length < 0x80 ? [length] : long)), ...parts]);
}

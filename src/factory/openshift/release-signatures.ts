import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import { bundleError } from '../../bundle/bundle-error.ts';
import { parseManifestDocuments } from '../../bundle/documents/kubernetes-manifest.ts';
import { parseJson } from '../../bundle/format/json.ts';
import { RELEASE_SIGNATURES } from '../../domain/model/bundle.ts';
import { type Digest, hexOf } from '../../domain/model/digest.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { defined } from '../../platform/defined.ts';
import { requireTools, runTool, type Tool } from '../image/make-image.ts';
import { readOptionFile } from '../images/images-file.ts';
import { sourceError } from '../images/layout-source.ts';
import type { AttachmentRequest } from '../payload/attachments.ts';

/** An OpenPGP message that signs a release image. It is not checked. */
export interface ReleaseSignature {
  /** The source, for messages. */
  readonly place: string;
  /** The digest that its place says it is for. */
  readonly hex?: string;
  readonly message: Buffer;
}

export interface SignatureChoice {
  readonly found: readonly ReleaseSignature[];
  /** A binary OpenPGP keyring. If it is absent, nothing is checked. */
  readonly key?: Buffer;
  /** Whether a bundle needs a signature of the release image. */
  readonly isRequired: boolean;
  /** Why no signature was found. */
  readonly lack?: string;
}

const KiB = 1024;
const MAX_FILES = 1000;
const MAX_SIGNATURES = 16;
export const MAX_MESSAGE_BYTES = 64 * KiB;
/** A ConfigMap has at most 1 MiB; YAML may be a little longer. */
const MAX_FILE_BYTES = 2048 * KiB;

const WITHOUT = 'the cluster upgrades to it with --force only, unless you give --release-signatures';

const gpgv: Tool = { name: 'gpgv', package: 'gpgv' };

/** Packet tags of RFC 9580, 5: signature, one-pass signature, compressed data; public key. */
const MESSAGE_TAGS: readonly number[] = [2, 4, 8];
const KEY_TAGS: readonly number[] = [6];

/**
 * Reads signatures as published (`sha256=<hex>/signature-1`), as oc-mirror stores them, and
 * ConfigMaps in YAML or JSON. In a folder, only files with such names are read.
 * @throws AppError `bundle/source`, `bundle/option` with the file
 */
export async function readSignatures(path: string, signal: AbortSignal): Promise<ReleaseSignature[]> {
  const found: ReleaseSignature[] = [];
  for (const file of await filesOf(path)) {
    found.push(...signaturesIn(await readOptionFile(file, 'signature', MAX_FILE_BYTES, signal), file));
  }
  return found;
}

async function filesOf(path: string): Promise<string[]> {
  try {
    if (!(await stat(path)).isDirectory()) return [path];
    const entries = await readdir(path, { withFileTypes: true, recursive: true });
    const files = entries
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .filter((file) => /\.(?:ya?ml|json)$|signature-[0-9]+$|[0-9a-f]{64}[^/]*$/.test(file))
      .sort();
    if (files.length <= MAX_FILES) return files;
  } catch (cause) {
    throw sourceError(path, cause);
  }
  throw bundleError('bundle/option', `${path} has more than ${MAX_FILES} files: name the folder of the signatures`);
}

const list = v.looseObject({ kind: v.literal('List'), items: v.array(v.unknown()) });
const configMap = v.looseObject({ kind: v.literal('ConfigMap'), binaryData: v.record(v.string(), v.string()) });

function signaturesIn(bytes: Buffer, path: string): ReleaseSignature[] {
  const message = packetsIn(bytes, 'MESSAGE', MESSAGE_TAGS);
  const ofName = path
    .split('/')
    .slice(-2)
    .join('/')
    .match(/(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])/g);
  if (message !== undefined) return [{ place: path, message, ...defined({ hex: ofName?.at(-1) }) }];
  const values = parseManifestDocuments(bytes.toString('utf8'), path).map(({ value }) => value);
  return values
    .flatMap((value) => (v.is(list, value) ? value.items : [value]))
    .flatMap((value) => (v.is(configMap, value) ? Object.entries(value.binaryData) : []))
    .flatMap(([key, text]) => {
      const [, hex] = /^sha256-([0-9a-f]{64})(?:-[0-9]+)?$/.exec(key) ?? [];
      return hex === undefined ? [] : [{ place: `${path}, ${key}`, hex, message: Buffer.from(text, 'base64') }];
    });
}

/**
 * Armored or binary.
 *
 * @throws AppError `bundle/source`, `bundle/option`; `bundle/tool` without gpgv
 */
export async function readReleaseKey(path: string, signal: AbortSignal): Promise<Buffer> {
  const key = packetsIn(await readOptionFile(path, 'key', MAX_FILE_BYTES, signal), 'PUBLIC KEY BLOCK', KEY_TAGS);
  if (key === undefined) throw bundleError('bundle/option', `${path} has no OpenPGP public key, armored or binary`);
  await requireTools([gpgv]);
  return key;
}

/** Undefined means that the first packet is another one. All blocks of an armored file count. */
function packetsIn(bytes: Buffer, block: string, tags: readonly number[]): Buffer | undefined {
  const parts = bytes.toString('latin1').split(`-----BEGIN PGP ${block}-----`).slice(1);
  const packets = parts.length === 0 ? bytes : Buffer.concat(parts.map(dearmored));
  const [first = 0] = packets;
  const tag = first & 0x40 ? first & 0x3f : (first & 0x3c) >> 2;
  return first & 0x80 && tags.includes(tag) ? packets : undefined;
}

/** Removes the headers before the blank line, and the checksum. */
function dearmored(block: string): Buffer {
  const [body = ''] = block.split('-----END PGP');
  const lines = body.split(/\r?\n/).map((line) => line.trim());
  const data = lines.slice(lines.indexOf('', 1) + 1).filter((line) => !line.startsWith('='));
  return Buffer.from(data.join(''), 'base64');
}

/**
 * Writes the ConfigMap with the signatures of the release image below `folder`, which becomes an
 * attachment.
 *
 * @throws AppError `bundle/source` when none is there, or none is good
 */
export async function attachSignatures(
  { found, key, isRequired, lack }: SignatureChoice,
  digest: Digest,
  folder: string,
  signal: AbortSignal,
): Promise<{ readonly attachments: readonly AttachmentRequest[]; readonly notes: readonly string[] }> {
  const fitting = found.filter(({ hex }) => hex === undefined || hex === hexOf(digest));
  const unique = [...new Map(fitting.map((one) => [one.message.toString('base64'), one])).values()];
  const image = `the release image ${digest}`;
  if (unique.length > MAX_SIGNATURES) {
    throw bundleError('bundle/source', `${image} has ${unique.length} signatures, and ${MAX_SIGNATURES} are allowed`);
  }
  if (unique.length === 0) {
    if (!isRequired) {
      const notes = lack === undefined ? [] : [`there is no signature of ${image} (${lack}): ${WITHOUT}`];
      return { attachments: [], notes };
    }
    const seen = found.length === 0 ? (lack ?? 'no signature was found') : `${found[0]?.place} is for another image`;
    throw bundleError('bundle/source', `there is no signature of ${image}: ${seen}`);
  }
  await mkdir(folder, { recursive: true });
  const { good, notes } =
    key === undefined
      ? { good: unique, notes: [`signatures of ${image} are carried, but were not checked: give --release-key`] }
      : await goodOnes(unique, { digest, key, folder }, signal);
  const path = join(folder, RELEASE_SIGNATURES.name);
  await writeFile(path, configMapOf(good, digest));
  return { attachments: [{ path, ...RELEASE_SIGNATURES }], notes };
}

async function goodOnes(
  signatures: readonly ReleaseSignature[],
  { digest, key, folder }: { readonly digest: Digest; readonly key: Buffer; readonly folder: string },
  signal: AbortSignal,
): Promise<{ readonly good: ReleaseSignature[]; readonly notes: string[] }> {
  await writeFile(join(folder, 'key.gpg'), key);
  const good: ReleaseSignature[] = [];
  const notes: string[] = [];
  for (const one of signatures) {
    const fault = await faultOf(one, digest, join(folder, `${good.length + notes.length}`), signal);
    if (fault === undefined) good.push(one);
    else notes.push(`signature ${one.place} is left out: ${fault}`);
  }
  if (good.length > 0) return { good, notes };
  throw bundleError('bundle/source', `no good signature of the release image ${digest}: ${notes.join('; ')}`);
}

const signed = v.looseObject({
  critical: v.looseObject({
    type: v.literal('atomic container signature'),
    image: v.looseObject({ 'docker-manifest-digest': v.string() }),
  }),
});

/** Why it proves nothing. Returns undefined when a key signed this digest. */
async function faultOf(
  { message }: ReleaseSignature,
  digest: Digest,
  folder: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (message.length > MAX_MESSAGE_BYTES) return `it has ${message.length} bytes, too many for a signature`;
  await mkdir(folder);
  await writeFile(join(folder, 'signature'), message);
  const args = ['--homedir', '.', '--keyring', '../key.gpg', '--status-fd', '1', '--output', 'signed', 'signature'];
  try {
    const { stdout } = await runTool(gpgv, { args, directory: folder }, signal);
    // The exit code is also 0 for an expired key.
    if (!/^\[GNUPG:\] GOODSIG /m.test(stdout)) return 'its key has expired';
    const path = join(folder, 'signed');
    if ((await stat(path)).size > MAX_MESSAGE_BYTES) return 'it signs more than a release image';
    const { critical } = parseJson(await readFile(path), signed, 'what it signs', 'bundle/source');
    const other = critical.image['docker-manifest-digest'];
    return other === digest ? undefined : `it is for ${JSON.stringify(other)}`;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof AppError) return reasonOf(error);
    throw error;
  }
}

/** The cluster version operator reads it. Each release has its name: none replaces another. */
function configMapOf(signatures: readonly ReleaseSignature[], digest: Digest): string {
  const name = `sha256-${hexOf(digest)}`;
  const binaryData = signatures.map(({ message }, at) => [`${name}-${at + 1}`, message.toString('base64')]);
  const document = {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: {
      namespace: 'openshift-config-managed',
      name,
      labels: { 'release.openshift.io/verification-signatures': '' },
    },
    binaryData: Object.fromEntries(binaryData),
  };
  return `${JSON.stringify(document, undefined, 2)}\n`;
}

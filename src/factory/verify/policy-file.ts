import { createPublicKey, type KeyObject } from 'node:crypto';
import { basename, dirname, resolve } from 'node:path';
import * as v from 'valibot';
import { bundleError } from '../../bundle/bundle-error.ts';
import { parseJson } from '../../bundle/format/json.ts';
import { holdsPrivateKey } from '../../bundle/keys/keys.ts';
import { limits } from '../../bundle/limits.ts';
import { type Digest, hexOf } from '../../domain/model/digest.ts';
import { isCanonicalReference, type Reference } from '../../domain/model/reference.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { defined } from '../../platform/defined.ts';
import { digestOf } from '../../platform/digest.ts';
import { readOptionFile } from '../images/images-file.ts';

/** The part of containers-policy.json(5) that `--verify-images` reads. */
export interface ImagePolicy {
  /** For messages. */
  readonly path: string;
  readonly fallback: readonly Requirement[];
  /** Of the transport `docker`, by scope. */
  readonly scopes: ReadonlyMap<string, readonly Requirement[]>;
}

export type Requirement = { readonly type: 'insecureAcceptAnything' } | { readonly type: 'reject' } | SignedRequirement;

export interface SignedRequirement {
  readonly type: 'sigstoreSigned';
  /** One of them must have signed. */
  readonly keys: readonly PolicyKey[];
  /** Absent: the format's default, `matchRepoDigestOrExact`. */
  readonly signedIdentity?: SignedIdentity;
}

export type SignedIdentity = (typeof SIGNED_IDENTITIES)[number];

export interface PolicyKey {
  readonly key: KeyObject;
  /** With the SHA-256 of its SubjectPublicKeyInfo. */
  readonly name: string;
}

const MAX_FILE_BYTES = 1024 * 1024;
const MAX_SCOPES = 1000;
const MAX_REQUIREMENTS = 8;
const MAX_KEYS = 16;
const SIGNED_IDENTITIES = ['matchRepoDigestOrExact', 'matchRepository'] as const;
const KEY_SOURCES = ['keyPath', 'keyPaths', 'keyData', 'keyDatas'] as const;

const line = v.pipe(v.string(), v.nonEmpty(), v.maxLength(limits.textLength), v.regex(/^\P{Cc}*$/u));
const data = v.pipe(v.string(), v.base64(), v.maxLength(2 * limits.keyFileBytes));
const several = <Item extends v.GenericSchema>(item: Item) =>
  v.pipe(v.array(item), v.minLength(1), v.maxLength(MAX_KEYS));

const signed = v.pipe(
  v.strictObject({
    type: v.literal('sigstoreSigned'),
    keyPath: v.exactOptional(line),
    keyPaths: v.exactOptional(several(line)),
    keyData: v.exactOptional(data),
    keyDatas: v.exactOptional(several(data)),
    signedIdentity: v.exactOptional(v.strictObject({ type: v.picklist(SIGNED_IDENTITIES) })),
  }),
  v.check(
    (one) => KEY_SOURCES.filter((source) => one[source] !== undefined).length === 1,
    `must have one of ${KEY_SOURCES.join(', ')}`,
  ),
);
const requirements = v.pipe(
  v.array(
    v.variant('type', [
      v.strictObject({ type: v.literal('insecureAcceptAnything') }),
      v.strictObject({ type: v.literal('reject') }),
      signed,
    ]),
  ),
  v.minLength(1),
  v.maxLength(MAX_REQUIREMENTS),
);
const SCOPE_FAULT = 'must be a registry, a namespace, a repository, one image, *.DOMAIN or empty';
const policy = v.strictObject({
  default: requirements,
  transports: v.exactOptional(
    v.strictObject({
      docker: v.exactOptional(
        v.pipe(
          v.record(v.pipe(v.string(), v.maxLength(limits.textLength), v.check(isScope, SCOPE_FAULT)), requirements),
          v.maxEntries(MAX_SCOPES),
        ),
      ),
    }),
  ),
});

/** Paths in it count from its folder. @throws AppError `bundle/option`, `bundle/source` */
export async function readImagePolicy(path: string, signal: AbortSignal): Promise<ImagePolicy> {
  const bytes = await readOptionFile(path, 'policy', MAX_FILE_BYTES, signal);
  const found = parseJson(bytes, policy, `policy file ${path}`, 'bundle/option');
  const scopes = new Map<string, readonly Requirement[]>();
  for (const [scope, rules] of Object.entries(found.transports?.docker ?? {})) {
    scopes.set(scope, await complete(rules, path, signal));
  }
  return { path, fallback: await complete(found.default, path, signal), scopes };
}

async function complete(
  rules: v.InferOutput<typeof requirements>,
  path: string,
  signal: AbortSignal,
): Promise<Requirement[]> {
  const completed: Requirement[] = [];
  for (const rule of rules) {
    if (rule.type !== 'sigstoreSigned') completed.push(rule);
    else {
      const keys: PolicyKey[] = [];
      for (const file of [rule.keyPath ?? [], rule.keyPaths ?? []].flat()) {
        const bytes = await readOptionFile(resolve(dirname(path), file), 'key', limits.keyFileBytes, signal);
        keys.push(keyIn(bytes, basename(file), `policy file ${path}: ${file}`));
      }
      for (const text of [rule.keyData ?? [], rule.keyDatas ?? []].flat()) {
        keys.push(keyIn(Buffer.from(text, 'base64'), 'keyData', `policy file ${path}: keyData`));
      }
      completed.push({ type: rule.type, keys, ...defined({ signedIdentity: rule.signedIdentity?.type }) });
    }
  }
  return completed;
}

/** SPKI in PEM, as `cosign.pub`. */
function keyIn(bytes: Buffer, name: string, place: string): PolicyKey {
  const refuse = (why: string, cause?: unknown) => bundleError('bundle/option', `${place}: ${why}`, { cause });
  if (holdsPrivateKey(bytes)) throw refuse('it holds a private key: remove it, and name the public key');
  if (bytes.toString('latin1').split('-----BEGIN ').length !== 2) throw refuse('it must have one public key in PEM');
  let key: KeyObject;
  try {
    key = createPublicKey({ key: bytes, format: 'pem', type: 'spki' });
  } catch (cause) {
    throw refuse(`its PEM can't be read: ${reasonOf(cause)}`, cause);
  }
  if (hashesOf(key).length === 0) throw refuse('it must be an ECDSA P-256 or P-384, RSA (2048 bits) or Ed25519 key');
  const id = hexOf(digestOf(key.export({ type: 'spki', format: 'der' })));
  return { key, name: `key ${id} (${name})` };
}

/** Of what sigstore signs with such a key: cosign 2 uses SHA-256 for each curve. */
export function hashesOf(key: KeyObject): readonly (string | null)[] {
  const { namedCurve = '', modulusLength = 0 } = key.asymmetricKeyDetails ?? {};
  if (key.asymmetricKeyType === 'ed25519') return [null];
  if (key.asymmetricKeyType === 'rsa') return modulusLength >= 2048 ? ['sha256'] : [];
  if (namedCurve === 'secp384r1') return ['sha256', 'sha384'];
  return namedCurve === 'prime256v1' ? ['sha256'] : [];
}

/** A scope that no image can have would leave images to another rule. */
function isScope(scope: string): boolean {
  return (
    scope === '' ||
    /^\*(?:\.[a-z0-9-]+)+$/.test(scope) ||
    isCanonicalReference(scope) ||
    isCanonicalReference(`${scope}/any/image`)
  );
}

export interface Rule {
  readonly scope: string;
  readonly requirements: readonly Requirement[];
}

/** The most specific one. `reference` is what nodes know the image by. */
export function ruleFor({ scopes, fallback }: ImagePolicy, reference: Reference, digest: Digest): Rule {
  const scope = scopesOf(reference, digest).find((one) => scopes.has(one));
  if (scope === undefined) return { scope: 'default', requirements: fallback };
  return { scope: scope === '' ? 'docker' : scope, requirements: scopes.get(scope) ?? [] };
}

function scopesOf({ registry, repository, tag }: Reference, digest: Digest): string[] {
  const tagged = tag === undefined ? [] : [`${repository}:${tag}@${digest}`, `${repository}:${tag}`];
  const parts = repository.split('/');
  const above = parts.map((_, at) => parts.slice(0, parts.length - at).join('/'));
  const labels = registry.replace(/:[0-9]+$/, '').split('.');
  const wild = labels.slice(1).map((_, at) => `*.${labels.slice(at + 1).join('.')}`);
  return [...tagged, `${repository}@${digest}`, ...above, ...wild, ''];
}

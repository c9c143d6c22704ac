import { basename, dirname, resolve } from 'node:path';
import * as v from 'valibot';
import { bundleError } from '../../bundle/bundle-error.ts';
import { parseJson } from '../../bundle/format/json.ts';
import { limits } from '../../bundle/limits.ts';
import type { Digest } from '../../domain/model/digest.ts';
import { isCanonicalReference, type Reference } from '../../domain/model/reference.ts';
import { defined } from '../../platform/defined.ts';
import { readOptionFile } from '../images/images-file.ts';
import { readSignatureKey, type SignatureKey } from './signature-key.ts';
import type { FulcioIdentity, SigstoreRoot } from './trusted-root.ts';

/** The part of containers-policy.json(5) that `--verify-images` reads. */
export interface ImagePolicy {
  /** The path in messages. */
  readonly path: string;
  readonly fallback: readonly Requirement[];
  /** The requirements of the transport `docker`, by scope. */
  readonly scopes: ReadonlyMap<string, readonly Requirement[]>;
}

export type Requirement = { readonly type: 'insecureAcceptAnything' } | { readonly type: 'reject' } | SignedRequirement;

export interface SignedRequirement {
  readonly type: 'sigstoreSigned';
  /** One of these keys must have signed, or else `identity`. */
  readonly keys: readonly SignatureKey[];
  readonly identity?: FulcioIdentity;
  /** The log of this root must have the signature. It is present with `identity`. */
  readonly root?: SigstoreRoot;
  /** If it is absent, the format's default applies: `matchRepoDigestOrExact`. */
  readonly signedIdentity?: SignedIdentity;
}

export type SignedIdentity = (typeof SIGNED_IDENTITIES)[number];

const MAX_FILE_BYTES = 1024 * 1024;
const MAX_SCOPES = 1000;
const MAX_REQUIREMENTS = 8;
const MAX_KEYS = 16;
const SIGNED_IDENTITIES = ['matchRepoDigestOrExact', 'matchRepository'] as const;
const SIGNERS = ['keyPath', 'keyPaths', 'keyData', 'keyDatas', 'fulcio'] as const;

const line = v.pipe(v.string(), v.nonEmpty(), v.maxLength(limits.textLength), v.regex(/^\P{Cc}*$/u));
const data = v.pipe(v.string(), v.base64(), v.maxLength(2 * limits.keyFileBytes));
const several = <Item extends v.GenericSchema>(item: Item) =>
  v.pipe(v.array(item), v.minLength(1), v.maxLength(MAX_KEYS));

const fulcio = v.pipe(
  v.strictObject({
    oidcIssuer: line,
    subjectEmail: v.exactOptional(line),
    buildSignerURI: v.exactOptional(line),
  }),
  v.check(
    (one) => one.subjectEmail !== undefined || one.buildSignerURI !== undefined,
    'must have subjectEmail or buildSignerURI',
  ),
);
const signed = v.pipe(
  v.strictObject({
    type: v.literal('sigstoreSigned'),
    keyPath: v.exactOptional(line),
    keyPaths: v.exactOptional(several(line)),
    keyData: v.exactOptional(data),
    keyDatas: v.exactOptional(several(data)),
    fulcio: v.exactOptional(fulcio),
    trustedRootPath: v.exactOptional(line),
    signedIdentity: v.exactOptional(v.strictObject({ type: v.picklist(SIGNED_IDENTITIES) })),
  }),
  v.check(
    (one) => SIGNERS.filter((source) => one[source] !== undefined).length === 1,
    `must have one of ${SIGNERS.join(', ')}`,
  ),
  v.check(
    (one) => one.fulcio === undefined || one.trustedRootPath !== undefined,
    'must have trustedRootPath beside fulcio',
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
  // JSON.parse() silently drops one of two members with the same name.
  if (membersIn(JSON.parse(bytes.toString())) !== colonsIn(bytes.toString())) {
    throw bundleError('bundle/option', `policy file ${path}: a member or a scope is there twice`);
  }
  const scopes = new Map<string, readonly Requirement[]>();
  for (const [scope, rules] of Object.entries(found.transports?.docker ?? {})) {
    scopes.set(scope, await complete(rules, path, signal));
  }
  return { path, fallback: await complete(found.default, path, signal), scopes };
}

function membersIn(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  const count = Array.isArray(value) ? 0 : Object.keys(value).length;
  return Object.values(value).reduce<number>((sum, member) => sum + membersIn(member), count);
}

function colonsIn(json: string): number {
  return json.replace(/"(?:[^"\\]|\\.)*"/g, '').split(':').length - 1;
}

async function complete(
  rules: v.InferOutput<typeof requirements>,
  path: string,
  signal: AbortSignal,
): Promise<Requirement[]> {
  const completed: Requirement[] = [];
  for (const rule of rules) {
    completed.push(rule.type === 'sigstoreSigned' ? await completeSigned(rule, path, signal) : rule);
  }
  return completed;
}

async function completeSigned(
  rule: v.InferOutput<typeof signed>,
  path: string,
  signal: AbortSignal,
): Promise<SignedRequirement> {
  const what = (file: string) => `policy file ${path}: ${file}`;
  const read = (file: string, kind: 'key' | 'policy', maxBytes: number) =>
    readOptionFile(resolve(dirname(path), file), kind, maxBytes, signal);
  const keys: SignatureKey[] = [];
  for (const file of [rule.keyPath ?? [], rule.keyPaths ?? []].flat()) {
    keys.push(readSignatureKey(await read(file, 'key', limits.keyFileBytes), basename(file), what(file)));
  }
  for (const text of [rule.keyData ?? [], rule.keyDatas ?? []].flat()) {
    keys.push(readSignatureKey(Buffer.from(text, 'base64'), 'keyData', what('keyData')));
  }
  const { type, fulcio: identity, trustedRootPath, signedIdentity } = rule;
  const members = { type, keys, ...defined({ identity, signedIdentity: signedIdentity?.type }) };
  if (trustedRootPath === undefined) return members;
  const { SigstoreRoot } = await import('./trusted-root.ts');
  const root = new SigstoreRoot(await read(trustedRootPath, 'policy', MAX_FILE_BYTES), what(trustedRootPath));
  if (identity === undefined ? root.hasLog : root.hasAuthority) return { ...members, root };
  const lacking = identity === undefined ? 'transparency log (tlogs)' : 'certificate authority';
  throw bundleError('bundle/option', `${what(trustedRootPath)}: it has no ${lacking}`);
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

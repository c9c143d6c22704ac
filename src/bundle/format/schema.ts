import * as v from 'valibot';
import { type Advisory, type Contents, hasFilesAlone, type Payload, STREAM_NAME } from '../../domain/model/bundle.ts';
import { type Digest, isDigest } from '../../domain/model/digest.ts';
import {
  CONTROL_PLANE_PLACES,
  isLabelSelector,
  isMaxUnavailable,
  type MaxUnavailable,
  MOST_GROUPS,
  ON_ROLLBACK,
  ORDER_GOALS,
  type ReleaseOrder,
} from '../../domain/model/roll-out-order.ts';
import {
  fitsScheme,
  impliedScheme,
  isRangeOf,
  isTagRange,
  isVersion,
  isVersionRange,
  MAX_RANGE_LENGTH,
  VERSION_SCHEMES,
  type VersionScheme,
} from '../../domain/model/version.ts';
import { isKeyName } from '../../domain/trust/approval.ts';
import { isRoleName } from '../../domain/trust/role.ts';
import { bundleError } from '../bundle-error.ts';
import { parsePublicKey } from '../keys/keys.ts';
import { limits } from '../limits.ts';
import { decodeJson, memberFault, validateJson } from './json.ts';
import { takeUnknown } from './unknown-members.ts';

export const architectures = ['amd64', 'arm64', 'ppc64le', 's390x'] as const;

const RFC3339 = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern searches for control characters, since texts reach terminals
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;
const KEY_ID = /^[0-9a-f]{64}$/;
const FILE_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;

/** Whether every filesystem takes `text` as a file name, of at most 255 bytes. */
export function isPlainFileName(text: string): boolean {
  return FILE_NAME.test(text) && Buffer.byteLength(text) <= limits.nameBytes;
}

/** Whether `text` is an RFC 3339 time with zone that exists in the calendar. */
export function isTimestamp(text: string): boolean {
  if (!RFC3339.test(text) || Number.isNaN(Date.parse(text))) return false;
  // Date.parse() turns the 30th of February into the 2nd of March.
  const day = text.slice(0, 10);
  return new Date(`${day}T00:00:00Z`).toISOString().startsWith(day);
}

export const digest = v.custom<Digest>(
  (value) => typeof value === 'string' && isDigest(value),
  'must be sha256:<64 lower-case hex digits>',
);
export const count = v.pipe(
  v.number('must be a number'),
  v.safeInteger('must be an integer'),
  v.minValue(0, 'must not be negative'),
);
const sequence = v.pipe(count, v.minValue(1, 'must be at least 1'));
const time = v.pipe(
  v.string(),
  v.maxLength(limits.nameBytes),
  v.check(isTimestamp, 'must be a time such as 2026-01-31T12:00:00Z (RFC 3339)'),
);
const version = v.pipe(
  v.string(),
  v.maxLength(limits.nameBytes),
  v.check(isVersion, 'must be a SemVer version or <app>[-rev<N>[-b<build>]], at most 128 characters'),
);
export const text = v.pipe(
  v.string(),
  v.maxLength(limits.textLength, `must have at most ${limits.textLength} characters`),
  v.check((value) => !CONTROL.test(value), 'must not hold control characters'),
);
const reason = v.strictObject({ reason: text });

export function sizeUpTo(maxBytes: number) {
  return v.pipe(count, v.maxValue(maxBytes, `must be at most ${maxBytes} bytes`));
}

function items<Item extends v.GenericSchema>(item: Item) {
  return v.pipe(v.array(item), v.maxLength(limits.payloadItems, `must have at most ${limits.payloadItems} entries`));
}

const FRACTION_FAULT = 'must be a fraction from 0 to 1, for example 0.1 for 10 % of the nodes';

const rollout = v.strictObject({
  start: v.exactOptional(time),
  durationMinutes: v.exactOptional(
    v.pipe(
      count,
      v.minValue(1, 'must be at least 1'),
      v.maxValue(limits.rolloutMinutes, `must be at most ${limits.rolloutMinutes}`),
    ),
  ),
  startPercentage: v.exactOptional(
    v.pipe(v.number('must be a number'), v.minValue(0, FRACTION_FAULT), v.maxValue(1, FRACTION_FAULT)),
  ),
});

const SELECTOR_FAULT = 'must be a label selector such as "topology.kubernetes.io/zone=a"';
const selector = v.pipe(text, v.check(isLabelSelector, SELECTOR_FAULT));
/** A day. */
const MOST_SETTLE = 86_400;
const atLeastOne = v.pipe(count, v.minValue(1, 'must be at least 1'));
const order = v.strictObject({
  controlPlane: v.exactOptional(v.picklist(CONTROL_PLANE_PLACES, "must be 'last', 'first' or 'with'")),
  groups: v.exactOptional(
    v.pipe(v.array(selector), v.maxLength(MOST_GROUPS, `must have at most ${MOST_GROUPS} entries`)),
  ),
  canary: v.exactOptional(
    v.pipe(
      v.strictObject({
        nodes: v.exactOptional(atLeastOne),
        labels: v.exactOptional(selector),
        soakMinutes: v.exactOptional(
          v.pipe(count, v.maxValue(limits.rolloutMinutes, `must be at most ${limits.rolloutMinutes}`)),
        ),
      }),
      v.check(({ nodes, labels }) => (nodes === undefined) !== (labels === undefined), 'must have nodes or labels'),
    ),
  ),
  maxUnavailable: v.exactOptional(
    v.custom<MaxUnavailable>(isMaxUnavailable, 'must be a number from 1 on, or a share from "1%" to "100%"'),
  ),
  onRollback: v.exactOptional(v.picklist(ON_ROLLBACK, "must be 'pause' or 'go-on'")),
  settleSeconds: v.exactOptional(v.pipe(count, v.maxValue(MOST_SETTLE, `must be at most ${MOST_SETTLE}`))),
  done: v.exactOptional(v.picklist(ORDER_GOALS, "must be 'activated' or 'proven'")),
  pauseAfterFailures: v.exactOptional(atLeastOne),
});

const update = v.strictObject({
  from: v.exactOptional(
    v.pipe(
      v.string(),
      v.maxLength(MAX_RANGE_LENGTH, `must have at most ${MAX_RANGE_LENGTH} characters`),
      v.check(isAnyRange, 'must be a range of versions such as ">=4.12.0 <4.13.7"'),
    ),
  ),
  barrier: v.exactOptional(reason),
  deadend: v.exactOptional(reason),
  rollout: v.exactOptional(rollout),
  endOfLife: v.exactOptional(time),
  order: v.exactOptional(order),
  base: v.exactOptional(digest),
});

const attachment = v.strictObject({
  name: v.pipe(v.string(), v.regex(FILE_NAME, 'must be a plain file name'), v.maxBytes(limits.nameBytes)),
  mediaType: text,
  digest,
  size: count,
});

/** Regardless of case, since they may be stored on any filesystem. */
function haveDistinctNames(attachments: readonly { readonly name: string }[]): boolean {
  return new Set(attachments.map(({ name }) => name.toLowerCase())).size === attachments.length;
}

/** SPKI in PEM. It is checked with the schema: later the bundle could no longer be refused. */
const publicKey = v.pipe(
  v.string(),
  v.maxLength(limits.textLength),
  v.check(isPublicKey, 'must be an Ed25519 or ECDSA P-256 public key in PEM'),
);

function isPublicKey(pem: string): boolean {
  try {
    parsePublicKey(pem, '');
    return true;
  } catch {
    return false;
  }
}

const advisory = v.strictObject({
  version,
  deadend: v.exactOptional(v.boolean()),
  barrier: v.exactOptional(v.boolean()),
  reason: text,
});

const keyId = v.pipe(v.string(), v.regex(KEY_ID, 'must be a key id: 64 lower-case hex digits'));

const KEY_NAME = 'must be the name of a key: at most 64 of a-z, A-Z, 0-9, ".", "_" and "-", a letter or digit first';
const keyName = v.pipe(v.string(), v.maxLength(limits.nameBytes, KEY_NAME), v.check(isKeyName, KEY_NAME));

const ROLE_NAME = 'must be the name of a role: a-z, 0-9 and -';

const keyChange = v.pipe(
  v.strictObject({
    role: v.exactOptional(v.pipe(v.string(), v.maxLength(limits.nameBytes), v.check(isRoleName, ROLE_NAME))),
    keys: v.exactOptional(
      v.pipe(
        v.array(v.unknown()),
        v.maxLength(limits.payloadKeys, `must bring at most ${limits.payloadKeys} keys`),
        v.array(publicKey),
      ),
    ),
    names: v.exactOptional(
      v.pipe(
        v.record(keyId, keyName),
        v.maxEntries(limits.payloadKeys, `must name at most ${limits.payloadKeys} keys`),
      ),
    ),
    revoked: v.exactOptional(items(keyId)),
  }),
  v.check(
    ({ role, keys = [], revoked = [] }) => role === undefined || keys.length + revoked.length > 0,
    'must add or revoke a key if it names a role',
  ),
  v.check(({ keys = [], names = {} }) => {
    const brought = new Set(keys.map((pem) => parsePublicKey(pem, '').keyId));
    return Object.keys(names).every((id) => brought.has(id));
  }, 'must name only keys that it brings'),
);

export const payloadMembers = v.strictObject({
  schemaVersion: v.literal(1),
  name: v.pipe(v.string(), v.regex(STREAM_NAME, `must match ${STREAM_NAME.source}`)),
  version,
  versionScheme: v.exactOptional(
    v.picklist(VERSION_SCHEMES, `must be ${VERSION_SCHEMES.map((one) => `'${one}'`).join(' or ')}`),
  ),
  arch: v.picklist(architectures, `must be one of ${architectures.join(', ')}`),
  sequence,
  created: time,
  expires: v.exactOptional(time),
  index: v.strictObject({ digest, size: sizeUpTo(limits.indexBytes) }),
  contents: v.strictObject({ digest, size: sizeUpTo(limits.contentsPointerBytes) }),
  totals: v.strictObject({
    images: v.pipe(count, v.maxValue(limits.images, `must be at most ${limits.images}`)),
    blobs: count,
    sizeBytes: count,
    diskBytes: count,
    inodes: count,
  }),
  update: v.exactOptional(update),
  schedule: v.exactOptional(v.picklist(['immediate', 'manual'], "must be 'immediate' or 'manual'")),
  keep: v.exactOptional(v.literal('life', "must be 'life'")),
  advisories: v.exactOptional(items(advisory)),
  trust: v.exactOptional(keyChange),
  attachments: v.exactOptional(
    v.pipe(
      items(attachment),
      v.check((all) => haveDistinctNames(all), 'must have distinct names'),
    ),
  ),
  warnings: v.exactOptional(v.pipe(v.array(text), v.maxLength(limits.images))),
  annotations: v.exactOptional(
    v.pipe(v.record(text, text), v.maxEntries(limits.payloadItems, `must have at most ${limits.payloadItems} entries`)),
  ),
  critical: v.exactOptional(items(text)),
});

/** All versions follow one scheme: the named one, or that of the payload's version. */
export const payloadSchema = v.pipe(
  payloadMembers,
  v.rawCheck(({ dataset, addIssue }) => {
    if (!dataset.typed) return;
    const fault = versionFault(dataset.value);
    if (fault !== undefined) addIssue({ message: fault });
  }),
);

interface Versioned extends Pick<Payload, 'version' | 'versionScheme' | 'advisories'> {
  readonly update?: { readonly from?: string };
}

function versionFault({ version, versionScheme, update, advisories = [] }: Versioned): string | undefined {
  const scheme: VersionScheme | undefined = versionScheme ?? impliedScheme(version);
  if (scheme === undefined) return undefined;
  const title = SCHEME_TITLES[scheme];
  if (!fitsScheme(version, scheme)) return `version ${version} must be ${title}, as versionScheme says`;
  if (update?.from !== undefined && !isRangeOf(update.from, scheme)) {
    return `update.from ${update.from} must be a range of versions of its stream, which are ${title}`;
  }
  const foreign = advisories.find((one) => !fitsScheme(one.version, scheme));
  return foreign && `advisories: version ${foreign.version} must be ${title}, as the versions of its stream are`;
}

const SCHEME_TITLES: Readonly<Record<VersionScheme, string>> = {
  semver: 'SemVer without a suffix -rev<N>',
  'three-tag': '<app>[-rev<N>[-b<build>]]',
};

function isAnyRange(text: string): boolean {
  return isVersionRange(text) || isTagRange(text);
}

/**
 * An unknown member is an error unless the payload has a list `critical` without it: an older node
 * must not ignore a restriction that it does not understand.
 *
 * @throws AppError `bundle/schema-version`, or `bundle/payload` with the member's path
 */
export function parsePayload(bytes: Uint8Array): Payload {
  const value = decodeJson(bytes, 'payload', 'bundle/payload');
  const { schemaVersion: found, critical } = (value ?? {}) as Partial<Record<string, unknown>>;
  if (found !== 1 && (typeof found === 'number' || typeof found === 'string')) {
    const message = `payload: schemaVersion ${JSON.stringify(found).slice(0, 40)} is not known, this stickpin reads version 1: update stickpin`;
    throw bundleError('bundle/schema-version', message);
  }
  const ignored = takeUnknown(value, payloadMembers, critical);
  return withIgnored(validateJson(value, payloadSchema, 'payload', 'bundle/payload', critical), ignored);
}

/**
 * Reads the payload of an adopted bundle, as it is stored. A later version may have stored members
 * that it knew. @throws AppError as `parsePayload()`
 */
export function parseStoredPayload(bytes: Uint8Array): Payload {
  const { ignored = [], ...value } = (decodeJson(bytes, 'payload', 'bundle/payload') ?? {}) as Payload;
  const unknown = takeUnknown(value, payloadMembers, value.critical);
  return withIgnored(validateJson(value, payloadSchema, 'payload', 'bundle/payload'), [...ignored, ...unknown]);
}

export function withIgnored<Document>(document: Document, ignored: readonly string[] = []): Document {
  return ignored.length === 0 ? document : { ...document, ignored };
}

export function payloadFaults(bytes: Uint8Array): readonly string[] {
  const { issues = [] } = v.safeParse(payloadSchema, decodeJson(bytes, 'payload', 'bundle/option'));
  return issues.map(memberFault);
}

/** The member `update.order`. @throws AppError `bundle/option` with file and member */
export function parseOrder(bytes: Uint8Array, path: string): ReleaseOrder {
  return validateJson(decodeJson(bytes, path, 'bundle/option'), order, path, 'bundle/option');
}

/** Parses one advisory, or a list. @throws AppError `bundle/option` with file and member */
export function parseAdvisories(bytes: Uint8Array, path: string): readonly Advisory[] {
  const value = decodeJson(bytes, path, 'bundle/option');
  const schema = Array.isArray(value)
    ? items(advisory)
    : v.pipe(
        advisory,
        v.transform((one) => [one]),
      );
  return validateJson(value, schema, path, 'bundle/option');
}

type Members = Pick<Payload, 'update' | 'schedule' | 'keep'>;

/** A member of a payload that is about the release itself, and the flag of `bundle create`. */
interface ReleaseMember {
  readonly member: string;
  readonly flag: string;
  readonly isIn: (payload: Members) => boolean;
}

const RELEASE_MEMBERS: readonly ReleaseMember[] = [
  { member: 'schedule', flag: '--manual', isIn: ({ schedule }) => schedule === 'manual' },
  { member: 'keep', flag: '--keep', isIn: ({ keep }) => keep !== undefined },
  { member: 'update.from', flag: '--from', isIn: ({ update }) => update?.from !== undefined },
  { member: 'update.barrier', flag: '--barrier', isIn: ({ update }) => update?.barrier !== undefined },
  { member: 'update.deadend', flag: '--deadend', isIn: ({ update }) => update?.deadend !== undefined },
  { member: 'update.rollout', flag: '--rollout-start', isIn: ({ update }) => update?.rollout !== undefined },
  { member: 'update.order', flag: '--order', isIn: ({ update }) => update?.order !== undefined },
  { member: 'update.endOfLife', flag: '--end-of-life', isIn: ({ update }) => update?.endOfLife !== undefined },
  { member: 'update.base', flag: '--base', isIn: ({ update }) => update?.base !== undefined },
];

/** Members about the release of the payload. They have no effect in a notice. */
export function releaseMembers(payload: Members): readonly Omit<ReleaseMember, 'isIn'>[] {
  return RELEASE_MEMBERS.filter(({ isIn }) => isIn(payload));
}

/** A notice contains no release. @throws AppError `bundle/payload` */
export function checkNotice(payload: Payload, { images }: Pick<Contents, 'images'>): void {
  const found = images.length > 0 || hasFilesAlone(payload) ? [] : releaseMembers(payload);
  if (found.length === 0) return;
  const names = found.map(({ member }) => member).join(', ');
  const message = `payload: ${names}: a bundle without images has no release that this would count for; have it made without`;
  throw bundleError('bundle/payload', message);
}

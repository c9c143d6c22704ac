import * as v from 'valibot';
import { SEARCHES } from '../../domain/fleet/node-status.ts';
import { NODE_CONDITION_TYPES } from '../../domain/model/condition.ts';
import { PHASES } from '../../domain/model/phase.ts';
import { JSON_SCHEMA_VERSION } from '../../domain/report/report.ts';

const text = v.string();
const texts = v.array(text);
const count = v.pipe(v.number(), v.integer(), v.minValue(0));

/** RFC 3339 in UTC, with milliseconds. */
export const time = v.pipe(text, v.isoTimestamp());
/** A reason: its code, and a sentence for people. */
const reason = v.strictObject({ code: text, message: text });

const condition = <const Types extends readonly string[]>(types: Types) =>
  v.strictObject({
    type: v.picklist(types),
    status: v.picklist(['True', 'False', 'Unknown']),
    reason: text,
    message: text,
    lastTransitionTime: time,
  });

const CONDITION_TYPES = ['Verified', 'SpaceAvailable', 'Preloaded', 'Pinned', 'Active', 'Proven', 'Degraded'] as const;

/** An adopted release, or a bundle that waits to be one. */
const bundle = v.strictObject({
  bundleId: text,
  name: text,
  version: text,
  sequence: count,
  phase: v.picklist(PHASES.map(({ phase }) => phase)),
  hold: v.optional(text),
  reason: v.optional(reason),
  degraded: v.optional(reason),
  conditions: v.optional(v.array(condition(CONDITION_TYPES))),
  signedBy: texts,
  signerKeyIds: v.optional(texts),
  media: texts,
  sources: v.optional(texts),
  images: v.strictObject({ total: count, present: count, pinned: count }),
  sizeBytes: count,
  advisory: v.optional(
    v.strictObject({
      version: text,
      deadend: v.optional(v.boolean()),
      barrier: v.optional(v.boolean()),
      reason: text,
      from: text,
      effect: v.picklist(['holds-activation', 'holds-others']),
    }),
  ),
  adoptedAt: v.optional(time),
  readyAt: v.optional(time),
  activatedAt: v.optional(time),
  soakEndsAt: v.optional(time),
  cancelled: v.optional(v.strictObject({ at: time, media: texts })),
  current: v.optional(v.boolean()),
  runs: v.optional(v.boolean()),
  kept: v.optional(text),
  warnings: v.optional(texts),
  activationHolds: v.optional(
    v.array(
      v.strictObject({
        gate: text,
        code: text,
        message: text,
        releasedBy: v.picklist(['person', 'time', 'event']),
        until: v.optional(time),
      }),
    ),
  ),
  rules: v.optional(
    v.array(
      v.strictObject({
        rule: v.picklist(['from', 'rollout', 'endOfLife', 'barrier', 'deadend']),
        value: text,
        effect: v.picklist(['holds-activation', 'holds-others']),
      }),
    ),
  ),
});

/** A bundle without images. */
const notice = v.strictObject({
  bundleId: text,
  name: text,
  version: text,
  sequence: count,
  signedBy: texts,
  signerKeyIds: v.optional(texts),
  adoptedAt: time,
  advisories: v.array(
    v.strictObject({
      version: text,
      deadend: v.optional(v.boolean()),
      barrier: v.optional(v.boolean()),
      reason: text,
    }),
  ),
  reason: v.optional(reason),
});

/** A bundle on a medium that is not taken. */
const rejected = v.strictObject({
  medium: text,
  path: text,
  name: v.optional(text),
  bundleId: v.optional(text),
  reason,
});

/** A release that a person rejected by its name. */
const rejectedName = v.strictObject({ name: text, version: text, since: time, reason });

/** Pins that belong to no known release. */
const unclaimed = v.strictObject({
  bundleId: v.optional(text),
  name: v.optional(text),
  version: v.optional(text),
  references: texts,
});

/** The update graph of a stream. */
const stream = v.strictObject({
  name: text,
  scheme: v.optional(v.picklist(['semver', 'three-tag'])),
  current: v.optional(v.strictObject({ version: text, source: v.picklist(['activated', 'running', 'setting']) })),
  next: v.optional(text),
  notes: texts,
  releases: v.array(
    v.strictObject({
      version: text,
      sequence: v.optional(count),
      phase: text,
      from: texts,
      barrier: v.optional(text),
      deadend: v.optional(text),
    }),
  ),
});

/** A window for activations. */
const window = v.strictObject({ opensAt: v.optional(time), closesAt: v.optional(time), text });

const key = v.strictObject({ name: text, keyId: text, broughtBy: v.optional(text) });

/** By what bundles are judged. */
const trust = v.strictObject({
  require: v.picklist(['signature', 'approval', 'both']),
  threshold: count,
  keys: v.array(key),
  roles: v.optional(
    v.array(
      v.strictObject({
        name: text,
        threshold: count,
        streams: texts,
        repositories: texts,
        mayRotate: v.boolean(),
        keys: v.array(key),
      }),
    ),
  ),
  revoked: v.array(
    v.strictObject({
      keyId: text,
      revokedBy: v.optional(text),
      role: v.optional(text),
      file: v.optional(text),
      byPerson: v.optional(v.literal(true)),
    }),
  ),
  problems: texts,
  revocationsUnreadable: v.boolean(),
  cause: v.optional(text),
});

/** The members of the whole state. */
const statusMembers = {
  status: text,
  operation: v.picklist(['idle', 'verifying', 'preloading', 'activating']),
  runtime: v.strictObject({ reachable: v.boolean(), name: v.optional(text), reason: v.optional(text) }),
  media: v.array(v.strictObject({ medium: text, state: text, bundles: count, reason: v.optional(reason) })),
  bundles: v.array(bundle),
  notices: v.array(notice),
  rejected: v.array(rejected),
  rejectedNames: v.array(rejectedName),
  conditions: v.array(condition(NODE_CONDITION_TYPES)),
  unclaimed: v.array(unclaimed),
  streams: v.array(stream),
  windows: v.array(window),
  stateProblems: v.array(reason),
  hooks: v.array(
    v.strictObject({
      hook: text,
      unit: text,
      state: v.picklist(['running', 'retrying', 'failed']),
      bundle: text,
      at: time,
      message: v.optional(text),
    }),
  ),
  trust,
  wanted: v.array(v.strictObject({ name: text, version: text, nodes: v.array(text), message: text })),
  protected: v.array(v.strictObject({ name: text, version: text, ownBytes: count })),
  progress: v.strictObject({
    doneBytes: count,
    totalBytes: count,
    bytesPerSecond: v.optional(count),
    isUnpacking: v.optional(v.literal(true)),
    images: v.optional(texts),
  }),
};

const schemaVersion = v.literal(JSON_SCHEMA_VERSION);
/** Of what was read from a file, while the daemon does not run. */
const stored = { writtenAt: v.optional(time), bootId: v.optional(text) };
const found = { subject: text, message: text };
/** What `show` prints beside the bundle or the stream. */
const around = { schemaVersion, windows: v.array(window), trust: v.optional(trust) };
/** A release from the database alone, while the daemon does not run. */
const recorded = {
  ...bundle.entries,
  images: v.partial(bundle.entries.images, ['present', 'pinned']),
  media: v.optional(bundle.entries.media),
};
const phase = v.literal('rejected');

/** What a node reports to the others, as in its annotation. */
const nodeStatus = v.strictObject({
  version: v.literal(1),
  arch: v.optional(text),
  releases: v.array(
    v.strictObject({
      name: text,
      version: text,
      bundle: text,
      phase: v.picklist(PHASES.map(({ phase }) => phase)),
      current: v.optional(v.boolean()),
      runs: v.optional(v.boolean()),
      percent: v.optional(v.number()),
      incomplete: v.optional(v.literal(true)),
      reason: v.optional(text),
    }),
  ),
  wants: v.optional(v.array(v.strictObject({ name: text, version: text }))),
  rejects: v.optional(v.array(text)),
  more: v.optional(v.number()),
});

const offeredBundle = v.strictObject({
  bundleId: text,
  name: text,
  version: text,
  sequence: v.number(),
  isWhole: v.boolean(),
  revision: text,
});

/**
 * What commands on a node print with `--json`, by the name of the command. docs/json is made from
 * it (`npm run docs`), and tests compare what commands print with it. Nothing may be there that is
 * not named here.
 */
export const NODE_DOCUMENTS = {
  /** `arch`: in the file `status.json` only. */
  status: v.strictObject({ schemaVersion, ...statusMembers, ...stored, arch: v.optional(text) }),
  list: v.strictObject({
    schemaVersion,
    bundles: v.array(bundle),
    notices: v.array(notice),
    rejected: v.array(rejected),
    rejectedNames: v.array(rejectedName),
    unclaimed: v.array(unclaimed),
    ...stored,
  }),
  show: v.union([
    v.strictObject({ ...around, ...bundle.entries }),
    v.strictObject({ ...around, ...recorded }),
    v.strictObject({ ...around, ...notice.entries }),
    v.strictObject({ ...around, ...rejected.entries, phase }),
    v.strictObject({ ...around, ...rejectedName.entries, phase }),
    v.strictObject({ ...around, stream }),
  ]),
  history: v.strictObject({
    schemaVersion,
    events: v.array(
      v.strictObject({
        at: time,
        kind: text,
        message: text,
        bundleId: v.optional(text),
        medium: v.optional(text),
        by: v.optional(text),
      }),
    ),
  }),
  doctor: v.strictObject({
    schemaVersion,
    findings: v.array(
      v.union([
        v.strictObject({ ...found, verdict: v.literal('ok') }),
        v.strictObject({ ...found, verdict: v.picklist(['warning', 'fault']), remedy: text }),
      ]),
    ),
  }),
  'verify-images': v.strictObject({
    schemaVersion,
    images: v.array(
      v.strictObject({
        image: text,
        releases: v.array(text),
        result: v.picklist(['whole', 'damaged', 'absent', 'unknown']),
        found: text,
        next: text,
      }),
    ),
  }),
  'fleet-status': v.strictObject({
    schemaVersion,
    self: text,
    nodes: v.array(
      v.strictObject({ name: text, status: v.optional(nodeStatus), seenAt: v.optional(time), isAbsent: v.boolean() }),
    ),
    peers: v.array(
      v.strictObject({ name: text, address: text, trouble: v.optional(text), bundles: v.array(offeredBundle) }),
    ),
    apiTrouble: v.optional(text),
    search: v.optional(v.picklist(SEARCHES)),
  }),
  'trust-list': v.strictObject({ schemaVersion, ...trust.entries }),
  report: v.strictObject({
    schemaVersion,
    path: text,
    files: v.array(v.strictObject({ file: text, about: text, sizeBytes: v.number() })),
  }),
  /** Of the commands that only say what they did, as `activate` and `trust revoke`. */
  message: v.strictObject({ schemaVersion, message: text }),
};

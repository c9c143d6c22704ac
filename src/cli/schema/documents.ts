import * as v from 'valibot';
import { SEARCHES } from '../../domain/fleet/node-status.ts';
import { PHASES } from '../../domain/model/phase.ts';
import { JSON_SCHEMA_VERSION } from '../../domain/report/report.ts';
import {
  bundle,
  notice,
  rejected,
  rejectedName,
  statusMembers,
  stream,
  time,
  trust,
  unclaimed,
  window,
} from './status-schema.ts';

const text = v.string();
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

/** What a node tells the others, as in its annotation. */
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

import * as v from 'valibot';
import { nodeStatus, SEARCHES } from '../../domain/fleet/node-status.ts';
import { keptPause } from '../../domain/fleet/pause.ts';
import { rollOutProgress } from '../../domain/fleet/progress.ts';
import { WAIT_GOALS } from '../../domain/fleet/turn.ts';
import { PERSON_ACTIONS } from '../../domain/report/actions.ts';
import {
  bundleReport,
  checkedImage,
  historyEvent,
  imageState,
  JSON_SCHEMA_VERSION,
  statusReport,
} from '../../domain/report/status-schema.ts';
import type { SchemaParts } from '../../platform/schema.ts';

const text = v.string();

/** RFC 3339 in UTC, with milliseconds. */
export const time = v.pipe(text, v.isoTimestamp());

/** The same schema, which lets no other members through, at any depth. */
function strict(schema: v.GenericSchema): v.GenericSchema {
  const { type, entries, item, wrapped, pipe } = schema as v.GenericSchema & SchemaParts;
  if (pipe !== undefined) return v.pipe(strict(pipe[0]), ...pipe.slice(1));
  switch (type) {
    case 'object':
      return v.strictObject(strictEntries(entries));
    case 'array':
      return v.array(strict(item));
    case 'exact_optional':
      return v.exactOptional(strict(wrapped));
    default:
      return schema;
  }
}

function strictEntries(entries: SchemaParts['entries']): SchemaParts['entries'] {
  return Object.fromEntries(Object.entries(entries).map(([name, schema]) => [name, strict(schema)]));
}

const schemaVersion = v.literal(JSON_SCHEMA_VERSION);

function document(about: string, entries: SchemaParts['entries']) {
  return v.pipe(v.strictObject({ schemaVersion, ...strictEntries(entries) }), v.description(about));
}

const { bundles, needsPerson, notices, rejected, rejectedNames, unclaimed, streams, windows, trust } =
  statusReport.entries;
const { images, media } = bundleReport.entries;
const { present, pinned } = images.entries;
/** Members of documents that were read from a file, while the daemon does not run. */
const stored = { writtenAt: v.exactOptional(time), bootId: v.exactOptional(text) };
const found = { subject: text, message: text };
/** What `show` prints beside the bundle or the stream. */
const around = { windows, trust: v.exactOptional(trust) };
/** A release from the database alone, while the daemon does not run. */
const recorded = {
  ...bundleReport.entries,
  images: v.object({ ...images.entries, present: v.exactOptional(present), pinned: v.exactOptional(pinned) }),
  media: v.exactOptional(media),
};
const phase = v.literal('rejected');

const offeredBundle = v.object({
  bundleId: text,
  name: text,
  version: text,
  sequence: v.number(),
  isWhole: v.boolean(),
  revision: text,
});

/**
 * What commands on a node print with `--json`, by the name of the command. `npm run docs` makes
 * docs/json from it, and tests compare the output of commands with it. INVARIANT: commands print no
 * members that are not named here.
 */
export const NODE_DOCUMENTS = {
  status: document('The whole state, also in the file `status.json`.', {
    ...statusReport.entries,
    ...stored,
    arch: v.exactOptional(v.pipe(text, v.description('GOARCH of the node, in the file `status.json` only.'))),
  }),
  list: document('The bundles.', { bundles, notices, rejected, rejectedNames, unclaimed, ...stored }),
  show: v.union([
    document('A release.', { ...around, ...bundleReport.entries }),
    document('A release from the database alone, while the daemon does not run.', { ...around, ...recorded }),
    document('A bundle without images.', { ...around, ...notices.item.entries }),
    document('A bundle on a medium that is not taken.', { ...around, ...rejected.item.entries, phase }),
    document('A release that was rejected by name.', { ...around, ...rejectedNames.item.entries, phase }),
    document('The update graph of a stream.', { ...around, stream: streams.item }),
  ]),
  'show-images': document('The images of a release, in the order in which they load.', {
    name: text,
    version: text,
    bundleId: text,
    images: v.array(imageState),
  }),
  wait: document('How far a release is that was waited for.', {
    release: v.pipe(text, v.description('As it was given.')),
    goal: v.picklist(WAIT_GOALS),
    result: v.pipe(
      v.picklist(['reached', 'ended', 'late']),
      v.description('`ended`: it does not get there, for the `reason`. `late`: the time was over.'),
    ),
    bundleId: v.exactOptional(v.pipe(text, v.description('Absent while it is not on the node.'))),
    phase: v.exactOptional(text),
    reason: v.exactOptional(v.object({ code: text, message: text })),
    needsPerson,
  }),
  explain: document('What codes of reasons mean.', {
    codes: v.array(
      v.object({
        code: v.pipe(text, v.description('The short code, as `M-12`.')),
        reason: v.pipe(text, v.description('The code of the reason, as `engine/needs-copy`.')),
        means: text,
        action: v.picklist(PERSON_ACTIONS),
        words: v.pipe(text, v.description('What a person with a stick does, as STATUS begins.')),
        asks: v.pipe(text, v.description('The same as a sentence.')),
        next: v.pipe(text, v.description('What the administrator does: a clause.')),
        example: v.exactOptional(
          v.pipe(text, v.description('A message with this code; absent where an error has its own.')),
        ),
      }),
    ),
  }),
  history: document('The newest 1,000 events, oldest first.', {
    events: v.array(v.object({ ...historyEvent.entries, at: time })),
  }),
  doctor: document('What was checked.', {
    findings: v.array(
      v.union([
        v.strictObject({ ...found, verdict: v.literal('ok') }),
        v.strictObject({ ...found, verdict: v.picklist(['warning', 'fault']), remedy: text }),
      ]),
    ),
  }),
  'verify-images': document('What was found of each image.', { images: v.array(checkedImage) }),
  'fleet-status': document('What the fleet process of this node knows of the cluster.', {
    self: text,
    nodes: v.array(
      v.object({
        name: text,
        status: v.exactOptional(nodeStatus),
        seenAt: v.exactOptional(time),
        isAbsent: v.boolean(),
        isSilent: v.exactOptional(v.literal(true)),
        facts: v.exactOptional(
          v.object({
            labels: v.record(text, text),
            isReady: v.exactOptional(v.boolean()),
            isCordoned: v.exactOptional(v.boolean()),
          }),
        ),
      }),
    ),
    peers: v.array(
      v.object({
        name: text,
        address: text,
        trouble: v.exactOptional(text),
        since: v.exactOptional(v.pipe(time, v.description('Since when it does not answer.'))),
        leftOut: v.exactOptional(v.pipe(text, v.description('Why nothing is requested of it for a time.'))),
        unreached: v.exactOptional(v.pipe(v.array(text), v.description('Bundles that it offered before.'))),
        certificate: v.exactOptional(v.pipe(text, v.description('`sha256:…`, as `fleet.exclude` takes it.'))),
        bundles: v.array(offeredBundle),
      }),
    ),
    pauses: v.exactOptional(v.pipe(v.array(keptPause), v.description('All that this node knows, also lifted ones.'))),
    removed: v.exactOptional(v.pipe(v.array(text), v.description('Setting `fleet.exclude` of this node.'))),
    apiTrouble: v.exactOptional(text),
    keys: v.exactOptional(
      v.pipe(
        v.object({ isRead: v.boolean(), trouble: v.exactOptional(text) }),
        v.description('Setting `fleet.auth = "keys"`: whether `fleet.keys_file` is in use, and what is wrong with it.'),
      ),
    ),
    isOld: v.exactOptional(v.literal(true)),
    isRemoved: v.exactOptional(v.literal(true)),
    readLabels: v.exactOptional(v.array(text)),
    lock: v.exactOptional(v.object({ isHeld: v.boolean(), why: v.exactOptional(text) })),
    search: v.exactOptional(v.picklist(SEARCHES)),
    rollOuts: v.exactOptional(v.array(v.object({ name: text, version: text, progress: rollOutProgress }))),
  }),
  'trust-list': document('The keys and the policy by which bundles are judged.', trust.entries),
  report: document('The files of a report.', {
    path: text,
    files: v.array(v.object({ file: text, about: text, sizeBytes: v.number() })),
  }),
  error: document('Of a command that failed and printed no other document.', {
    error: v.object({
      code: v.pipe(text, v.description('Which error it is, for programs. The message may change, the code does not.')),
      message: v.pipe(text, v.description('The line on stderr, without the name of the program.')),
      exitCode: v.pipe(v.number(), v.integer()),
      shortCode: v.exactOptional(
        v.pipe(text, v.description('As `stickpin explain` takes it; absent for other codes.')),
      ),
    }),
  }),
  message: document('Of commands that only say what they did, as `activate` and `trust revoke`.', { message: text }),
};

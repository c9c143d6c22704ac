import * as v from 'valibot';
import { is, maybe, type Parsed } from '../../platform/schema.ts';
import { keptPause } from '../fleet/pause.ts';
import { rollOutProgress } from '../fleet/progress.ts';
import { CONDITION_TYPES, NODE_CONDITION_TYPES, PHASES } from '../model/condition.ts';
import { VERSION_SCHEMES } from '../model/version.ts';
import { PERSON_ACTIONS, VERDICTS } from './actions.ts';

/**
 * The version of the documents for programs: `status.json`, and the output of commands with
 * `--json`. It grows when a member changes its meaning or is removed. New members do not change it.
 */
export const JSON_SCHEMA_VERSION = 1;

/*
 * The status document: `stickpin status --json` and `status.json`. Its types, the JSON Schemas in
 * docs/json, the properties of the D-Bus API with docs/dbus.md, and what the fleet process reads of
 * it follow from this file. Times are RFC 3339 in UTC.
 *
 * The metadata `dbus` is the type on D-Bus where it does not follow from the schema: `struct`
 * instead of a dictionary, `t` (64 bits) or `i` (with sign) instead of `u`, and `s` for words that
 * a client takes unchecked. The order of members is their order in a struct.
 */

const text = v.string();
const texts = v.array(text);
const flag = v.boolean();
const set = v.literal(true);
const count = v.pipe(v.number(), v.integer(), v.minValue(0));
const large = v.pipe(count, v.metadata({ dbus: 't' }));
const time = v.pipe(text, v.isoTimestamp());

const struct = <E extends v.ObjectEntries>(entries: E) => v.pipe(v.object(entries), v.metadata({ dbus: 'struct' }));

const reason = v.object({ code: text, message: is(text, 'A full sentence, mostly without full stop.') });

const condition = <const Types extends readonly string[]>(types: Types) =>
  struct({
    type: v.picklist(types),
    status: v.picklist(['True', 'False', 'Unknown']),
    reason: is(text, 'One word in CamelCase.'),
    message: text,
    lastTransitionTime: is(time, 'When the status last changed.'),
  });

const effect = is(
  v.picklist(['holds-activation', 'holds-others']),
  '`holds-activation`: of this release, while it applies. `holds-others`: other releases of its stream wait for it, or are not reached from it.',
);

const rule = struct({
  rule: v.picklist(['from', 'rollout', 'order', 'endOfLife', 'barrier', 'deadend']),
  value: text,
  effect,
});

const activationHold = v.object({
  gate: text,
  code: text,
  message: text,
  releasedBy: is(
    v.picklist(['person', 'time', 'event']),
    '`time`: the hold ends automatically. `event`: it ends with something else that happens on the node.',
  ),
  until: maybe(time, 'When it ends automatically, where a date can say so.'),
});

const advisory = { version: text, deadend: v.exactOptional(flag), barrier: v.exactOptional(flag), reason: text };

export const bundleReport = v.object({
  bundleId: is(text, 'The digest of the bundle.'),
  name: is(text, 'The name of the release stream; empty when no trusted key signed the bundle.'),
  version: is(text, 'The version of the release; empty when no trusted key signed the bundle.'),
  sequence: is(large, 'The sequence number of the release.'),
  phase: is(
    v.pipe(v.picklist(PHASES.map(({ phase }) => phase)), v.metadata({ dbus: 's' })),
    'The phase, as in `docs/architecture.md`.',
  ),
  hold: maybe(text, 'What the bundle waits for.'),
  reason: maybe(reason, 'Why it does not go on: `code` and `message`.'),
  degraded: maybe(reason, 'What short retries could not repair: `code` and `message`.'),
  conditions: maybe(
    v.array(condition(CONDITION_TYPES)),
    'Type, status, reason, message and time of the last change of each condition.',
  ),
  signedBy: is(texts, 'The names of the keys that signed it.'),
  signerKeyIds: maybe(texts, 'The ids of the keys that signed it.'),
  media: is(texts, 'The media that carry it.'),
  sources: maybe(texts, 'Where absent images are pulled from.'),
  images: is(
    v.object({ total: count, present: count, pinned: count }),
    'How many images it has, and how many of them the runtime reports as `present` and `pinned`.',
  ),
  artifacts: maybe(
    v.object({ total: count, present: count }),
    'How many artifacts it has, and how many of them the node has `present`; absent where it has none.',
  ),
  sizeBytes: is(large, 'The size of its blobs in bytes.'),
  adoptedAt: maybe(time, 'When it was adopted (RFC 3339).'),
  readyAt: maybe(time, 'When it was ready (RFC 3339).'),
  activatedAt: maybe(time, 'When it was activated (RFC 3339).'),
  soakEndsAt: maybe(time, 'When it will have run for `lifecycle.soak`, if nothing disturbs it (RFC 3339).'),
  cancelled: maybe(
    v.object({ at: time, media: texts }),
    'Of a cancelled preload: `at` (RFC 3339), and `media`, the ids of those media that were plugged in then and still are.',
  ),
  activationHolds: maybe(
    v.array(activationHold),
    'The rules that hold its activation: `code`, `message`, `releasedBy`, `until`.',
  ),
  rollOut: maybe(
    v.object({
      begun: maybe(flag, 'Its activation is due: other nodes wait for its end.'),
      disturbedMs: maybe(v.number(), 'Changes when its containers restart: a soak begins anew on other nodes.'),
      fails: maybe(flag, 'Containers of it exit with errors, and none of these components runs.'),
      progress: maybe(
        rollOutProgress,
        'How far the nodes are, while it waits for its turn or runs: the whole in a `line`, and the first `places`.',
      ),
      reads: maybe(texts, 'It waits for its turn: the labels of Nodes that decide about it.'),
      back: maybe(flag, 'It was rolled back, and only a pause holds it on other nodes.'),
    }),
    'What other nodes of the cluster need to know for the order in which they activate it.',
  ),
  rules: maybe(v.array(rule), 'Its rules: name, value and effect.'),
  warnings: maybe(texts, 'What its maker was warned of.'),
  verified: maybe(texts, 'Who signed its images, as its maker verified them: a line for each scope and signer.'),
  ignored: maybe(texts, 'Members of the bundle that this stickpin does not know and may ignore, by path.'),
  current: maybe(flag, 'Whether it is the release of its stream that was activated last.'),
  runs: maybe(flag, 'Of that release: whether containers run from it; absent when none shows it.'),
  rolledBack: maybe(flag, 'It was rolled back after its last activation.'),
  kept: maybe(text, 'Of one that was activated and is not the current one: why it is kept, and until when.'),
  advisory: maybe(
    v.object({ ...advisory, from: is(text, 'The bundle that says it, as `ocp@4.13.9`.'), effect }),
    'What a bundle of the stream says about this release.',
  ),
});

const notice = v.object({
  bundleId: text,
  name: text,
  version: text,
  sequence: large,
  signedBy: texts,
  signerKeyIds: v.exactOptional(texts),
  adoptedAt: time,
  advisories: v.array(v.object(advisory)),
  reason: maybe(reason, 'Why it is not in force.'),
});

const rejected = v.object({
  medium: text,
  path: text,
  reason,
  name: v.exactOptional(text),
  bundleId: maybe(text, 'Absent when its envelope could not be read.'),
});

const unclaimed = v.object({
  bundleId: v.exactOptional(text),
  name: v.exactOptional(text),
  version: v.exactOptional(text),
  references: texts,
});

const stream = v.object({
  name: text,
  scheme: maybe(v.picklist(VERSION_SCHEMES), 'Absent while the versions of all its releases fit both schemes.'),
  current: maybe(
    v.object({ version: text, source: is(v.picklist(['activated', 'running', 'setting']), 'What says so.') }),
    'The present release; absent where nothing is known to be activated.',
  ),
  next: maybe(text, 'The version of the release that is activated next.'),
  notes: is(texts, 'What a person should know of the stream: sentences.'),
  releases: is(
    v.array(
      v.object({
        version: text,
        sequence: maybe(large, 'Absent of one that is not here.'),
        phase: is(text, 'Its phase; `arriving` while it is being adopted, `absent` of one that is not here.'),
        from: is(texts, 'Versions of the releases from which a node may go to it.'),
        barrier: maybe(text, 'Why it is a barrier.'),
        deadend: maybe(text, 'Why it is a dead end.'),
      }),
    ),
    'The newest 30 releases, by sequence, and the barriers and dead ends that are not here.',
  ),
});

const window = v.object({
  opensAt: maybe(time, 'Absent when it is open now.'),
  closesAt: maybe(time, 'Absent when it does not close within weeks.'),
  text: is(text, 'For people: `Sat 2026-11-28 23:30 to Sun 2026-11-29 00:30 (Europe/Berlin)`.'),
});

const hook = v.object({
  hook: text,
  unit: text,
  state: v.picklist(['running', 'retrying', 'failed']),
  bundle: maybe(text, '`name@version` of its release; absent of a hook of the node that is for none.'),
  medium: maybe(text, 'The medium that it is for, of a hook of the node.'),
  at: is(time, 'Since when it runs, when it is tried again, or when it failed.'),
  message: maybe(text, 'Why it failed.'),
});

const key = v.object({
  name: text,
  keyId: text,
  broughtBy: maybe(text, 'The bundle that rotated it in; absent for a key of `trust.keys_dir`.'),
});

/** Bundles are named `ocp@4.13.7`, or by their digest if the name is unknown. */
const trust = v.object({
  require: v.pipe(v.picklist(['signature', 'approval', 'both']), v.metadata({ dbus: 's' })),
  threshold: is(count, 'How many distinct keys must have signed.'),
  keys: v.array(key),
  roles: maybe(
    v.array(
      v.object({
        name: text,
        threshold: count,
        streams: is(texts, 'Globs over the names of streams.'),
        repositories: is(texts, 'Repositories with all that is below them.'),
        mayRotate: is(flag, 'Whether its bundles may bring or revoke keys of this role.'),
        mayKeepForLife: is(flag, 'Whether its bundles may say `keep: life`.'),
        maxBytes: maybe(count, 'How much disk its releases may take; absent: any.'),
        keys: v.array(key),
      }),
    ),
    'Keys that count in a role only, and what they may sign.',
  ),
  revoked: is(
    v.array(
      v.object({
        keyId: text,
        file: maybe(text, 'The `*.revoked` file that names it.'),
        byPerson: maybe(set, 'By `stickpin trust revoke`.'),
        revokedBy: maybe(text, 'The bundle that revoked it.'),
        role: maybe(text, 'The role in which it no longer counts; absent: among the plain keys.'),
      }),
    ),
    'Keys that never count. One without `file`, `byPerson` and `revokedBy`: a file did that is gone.',
  ),
  problems: is(texts, 'Files of `trust.keys_dir` that could not be used, a sentence each.'),
  revocationsUnreadable: is(flag, "Revocations can't be read, so that no key counts."),
  cause: maybe(text, "Why they can't be read, and what to do."),
});

/** Kinds of sources of bundles. */
const MEDIUM_KINDS = ['stick', 'folder', 'node'] as const;

const needReport = v.object({
  code: is(text, 'The short code of the reason, as `M-12`.'),
  message: is(text, 'What is wrong and what to do.'),
  bundle: maybe(text, 'The release that it is about, as `ocp@4.13.7`.'),
});

/** The order of members is that of the output. */
export const statusReport = v.object({
  status: is(text, 'The STATUS line, as `systemctl status stickpin` shows it.'),
  advice: is(
    v.object({
      action: is(
        v.picklist(PERSON_ACTIONS),
        'What a person does first: `leave-in`, `remove` or `plug-in` the stick, `call-support`, `wait`, or `none`.',
      ),
      words: is(text, 'The words with which the STATUS line begins: `LEAVE THE STICK IN`.'),
      code: maybe(text, 'The short code of the reason, as `M-12`.'),
      text: is(text, 'What happens, as whole sentences.'),
      atNode: maybe(text, 'The same for somebody at the node, who has a screen and no shell: without commands.'),
      stay: maybe(text, 'Why the stick must stay, where `words` do not say so; `text` has it too.'),
      afterwards: maybe(
        v.picklist(PERSON_ACTIONS),
        '`call-support` or `wait`, where that follows once the stick is removed.',
      ),
    }),
    'What a person does now, and why: `action`, `words`, `code`, `text`, `atNode`, `stay`, `afterwards`.',
  ),
  needsPerson: is(
    v.array(needReport),
    'Everything that ends only when a person does something: `code`, `message`, `bundle`.',
  ),
  verdict: maybe(
    v.picklist(VERDICTS),
    'The state of the node in one word: `good`, `waits-for-admin`, `works`, `needs-person` or `failed`.',
  ),
  waitsForAdmin: maybe(
    v.array(needReport),
    'What only an administrator ends, as an activation by hand: `code`, `message`, `bundle`.',
  ),
  operation: is(
    v.picklist(['idle', 'verifying', 'preloading', 'activating']),
    '`idle`, `verifying`, `preloading` or `activating`.',
  ),
  runtime: is(
    v.object({
      reachable: flag,
      name: v.exactOptional(text),
      reason: maybe(text, "Why its images are not known, or why it can't be used. It may be reachable all the same."),
    }),
    'The container runtime: `reachable`, `name`, `reason`.',
  ),
  media: is(
    v.array(
      v.object({
        medium: text,
        kind: is(
          v.pipe(v.picklist(MEDIUM_KINDS), v.metadata({ dbus: 's' })),
          'A `stick` (also a disc), a `folder` of this node, or another `node`.',
        ),
        state: text,
        bundles: count,
        reason: maybe(reason, "Why it can't be read, of one that is `failed`."),
      }),
    ),
    'The media that are plugged in: `medium`, `kind`, `state`, `bundles`, `reason`.',
  ),
  bundles: is(v.array(bundleReport), 'The bundles: adopted releases, and those that wait to be adopted.'),
  notices: is(v.array(notice), 'Adopted bundles without images, with their `advisories`.'),
  rejected: is(v.array(rejected), 'Bundles on media that are not taken, with the `reason`.'),
  rejectedNames: is(
    v.array(v.object({ name: text, version: text, since: time, reason })),
    'Releases that a person rejected by name, with `since` and the `reason`.',
  ),
  conditions: is(
    v.array(condition(NODE_CONDITION_TYPES)),
    'The conditions of the node: type, status, reason, message and time of the last change since the daemon started.',
  ),
  unclaimed: is(
    v.array(unclaimed),
    'Pinned images that belong to no known release, by the release that they once belonged to.',
  ),
  streams: is(v.array(stream), 'The update graph of each stream: `scheme`, `current`, `next`, `notes` and `releases`.'),
  windows: is(
    v.array(window),
    'The next windows for activations: `opensAt`, `closesAt`, `text`. Empty when none is waited for.',
  ),
  stateProblems: is(v.array(reason), 'Files of the daemon that were lost or damaged at its start: code and message.'),
  hooks: is(v.array(hook), 'Hooks that run, that are tried again, or that failed last.'),
  trust: is(trust, 'The keys and the policy by which bundles are judged.'),
  wanted: is(
    v.array(struct({ name: text, version: text, nodes: texts, message: text })),
    'Releases that other nodes have loaded and no node can give: name, version, those nodes, and what to do.',
  ),
  pauses: is(
    v.array(keptPause),
    'Pauses of roll-outs that last, also lifted ones: `id`, the release, who said it on which node and why, `at`, `until`.',
  ),
  protected: is(
    v.array(struct({ name: text, version: text, ownBytes: large })),
    'Releases that `lifecycle.protect` or `keep` of their bundle keeps: name, version, bytes that nothing else needs.',
  ),
  progress: is(
    v.object({
      doneBytes: large,
      totalBytes: large,
      bytesPerSecond: maybe(large, 'Absent until there is enough to judge by.'),
      isUnpacking: maybe(set, 'All that was requested is transferred, and the runtime unpacks it.'),
      images: maybe(texts, 'By their components, or by their repositories where they have none.'),
    }),
    'The preload that runs or the last one: `doneBytes`, `totalBytes`, `bytesPerSecond`, `isUnpacking`, and `images`, which are pulled now.',
  ),
});

/** The result of `verify-images` for one image. */
export const checkedImage = v.object({
  image: is(text, 'By digest.'),
  releases: is(texts, 'The kept releases that have it: `ocp@4.13.7`.'),
  result: is(
    v.picklist(['whole', 'damaged', 'absent', 'unknown']),
    '`damaged`: see `found`. `unknown`: it could not be checked.',
  ),
  found: is(text, 'What was checked, or what is wrong.'),
  next: is(text, 'What becomes of it and what to do. Empty when nothing is to be done.'),
});

/** An image of a release. `present` and `pinned` are absent while the daemon does not run. */
export const imageState = v.object({
  component: maybe(text, 'Absent where it has none.'),
  name: is(text, 'With its first tag: `quay.io/coreos/etcd:3.5.9`.'),
  digest: text,
  sizeBytes: is(large, 'Of its layers, compressed. Layers that images share count for each of them.'),
  present: maybe(flag, 'Whether the runtime has it.'),
  pinned: maybe(flag, 'Whether the runtime reports it as pinned.'),
});

/** An event of the history. Its time is in milliseconds since the epoch on D-Bus only. */
export const historyEvent = v.object({
  at: large,
  kind: text,
  message: text,
  bundleId: v.exactOptional(text),
  medium: v.exactOptional(text),
  by: maybe(text, 'Who or what did it: `uid 1000: activate`, `schedule`, `window`, `rollout`, `daemon`.'),
});

export type StatusReport = Parsed<typeof statusReport>;
export type BundleReport = StatusReport['bundles'][number];
export type ActivationHoldReport = NonNullable<BundleReport['activationHolds']>[number];
export type ShownRule = NonNullable<BundleReport['rules']>[number];
export type NoticeReport = StatusReport['notices'][number];
export type StreamReport = StatusReport['streams'][number];
export type StreamRelease = StreamReport['releases'][number];
export type TrustReport = StatusReport['trust'];
export type ImageState = Parsed<typeof imageState>;
export type CheckedImage = Parsed<typeof checkedImage>;

type Lists = {
  readonly [Key in keyof StatusReport as StatusReport[Key] extends readonly unknown[] ? Key : never]: StatusReport[Key];
};

/** A report with empty lists. The cast is safe: an empty list is of any type. */
export const EMPTY_REPORT = Object.fromEntries(
  Object.entries(statusReport.entries).flatMap(([key, { type }]) => (type === 'array' ? [[key, []]] : [])),
) as unknown as Lists;

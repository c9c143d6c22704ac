import { holdsLater } from '../../domain/activation/stream-path.ts';
import type { Assessment } from '../../domain/assess/assess.ts';
import { bundleName, bundleTitle, STREAM_NAME, type VerifiedBundle } from '../../domain/model/bundle.ts';
import { type BundleId, isDigest, shortDigest } from '../../domain/model/digest.ts';
import { isVersion } from '../../domain/model/version.ts';
import { approvalsIn, type Stored } from '../../domain/state/state.ts';
import { isApproved, rejectionOf } from '../../domain/trust/approval.ts';
import type { Clock } from '../../platform/clock.ts';
import { defined } from '../../platform/defined.ts';
import { oneLine } from '../../platform/plain-text.ts';
import { bundlesByDigest, type CommandContext, refuse } from './command-context.ts';

interface Target {
  readonly bundleId: BundleId;
  readonly bundle: VerifiedBundle | undefined;
}

interface AwaitedName {
  readonly name: string;
  readonly version: string;
}

export function approve(context: CommandContext, name: string): string {
  const { ports, assessment } = context;
  const { store, policy } = ports;
  const stored = store.load();
  const rejected = (stored.rejectedNames ?? []).find((one) => bundleName(one) === name);
  // A rejection by name concerns all its bundles.
  const isForAll = rejected !== undefined && namedBy(name, stored.bundles, assessment()).size !== 1;
  const target = isForAll ? undefined : targetOf(name, stored.bundles, assessment());
  if (target === undefined) return allowName(context, name, rejected);
  const wasRejected = rejectionOf(judgedOf(target), approvalsIn(stored, policy)) !== undefined;
  const restored = rejected === undefined ? undefined : allowName(context, name, rejected);
  const what = titleOf(target);
  if (isApproved(judgedOf(target), approvalsIn(store.load(), policy)))
    return restored ?? `${what} is approved already.`;
  const then = {
    signature: wasRejected
      ? 'its rejection is taken back, and it is judged as any other one'
      : 'this node asks for signatures only (trust.require = "signature"), so it makes no difference now',
    approval: 'it is adopted when a medium has it, whoever signed it',
    both: 'it is adopted when a medium has it and enough trusted keys signed it',
  }[policy.trust.require];
  return record(context, target, 'approved', `${what} is approved: ${then}.`);
}

/** STATUS shows the reason beside what to do. */
const MAX_REASON_LENGTH = 200;

export function reject(context: CommandContext, name: string, given?: string): string {
  const { ports, assessment } = context;
  const reason = given === undefined ? undefined : checkedReason(given);
  const { bundles } = ports.store.load();
  const target = isDigest(name) ? targetOf(name, bundles, assessment()) : undefined;
  if (target === undefined) return rejectName(context, name, reason);
  const adopted = bundles.find(({ bundleId }) => bundleId === target.bundleId);
  const then =
    adopted === undefined
      ? 'it is not adopted'
      : `it was adopted before: it is no longer loaded or activated, and its pins stay${stillHeld(adopted, assessment())}`;
  return record(
    context,
    target,
    'rejected',
    `${titleOf(target)} is rejected${reason === undefined ? '' : ` (${reason})`}: ${then}; 'stickpin approve' takes that back.`,
    reason,
  );
}

/** @throws AppError `engine/reason` (`reject`) */
function checkedReason(reason: string): string {
  const why = oneLine(reason).trim();
  if (why === '' || why.length > MAX_REASON_LENGTH) {
    throw refuse('engine/reason', `a reason has 1 to ${MAX_REASON_LENGTH} characters, and this one has ${why.length}`);
  }
  return why;
}

function rejectName(context: CommandContext, text: string, reason: string | undefined): string {
  const { ports, recorder } = context;
  const { store, clock } = ports;
  const release = awaitedName(text);
  if (release === undefined) throw unknownName(text, store.load().bundles, context.assessment());
  const why = reason === undefined ? '' : ` (${reason})`;
  const adopted = store.load().bundles.find(({ payload }) => bundleName(payload) === text);
  const then =
    adopted === undefined
      ? 'a bundle of this name is not adopted'
      : `the adopted release of this name is no longer loaded or activated, its pins stay, and no other bundle of this name is adopted${stillHeld(adopted, context.assessment())}`;
  const message = `${bundleTitle(release)} is rejected${why}: ${then}; 'stickpin approve ${text}' takes that back.`;
  const [first, second] = namedBy(text, store.load().bundles, context.assessment()).keys();
  // Several bundles share no history.
  const only = second === undefined ? first : undefined;
  const event = { kind: 'bundleVetoed', level: 'info', ...(only && { bundleId: only }), message } as const;
  const at = verdictTime(store.load(), clock);
  store.rejectName(defined({ ...release, at, reason }), recorder.row(event));
  recorder.log(event);
  return message;
}

/** What a rejected release still holds on the node: a clause, maybe empty. */
function stillHeld({ payload }: VerifiedBundle, assessment: Assessment | undefined): string {
  const path = assessment?.paths.get(payload.name);
  const held = path && holdsLater(path, payload.version);
  if (held === undefined) return '';
  return `. It is a ${held} of its stream: later releases stay held, until a person activates one with 'stickpin activate' and confirms`;
}

function allowName(context: CommandContext, text: string, rejected: AwaitedName | undefined): string {
  const { ports, recorder } = context;
  const { store } = ports;
  if (rejected === undefined) throw unknownName(text, store.load().bundles, context.assessment());
  const message = `The rejection of ${bundleTitle(rejected)} is taken back: a bundle of this name is judged as any other one.`;
  const event = { kind: 'bundleApproved', level: 'info', message } as const;
  store.allowName(rejected, recorder.row(event));
  recorder.log(event);
  return message;
}

function awaitedName(text: string): AwaitedName | undefined {
  const at = text.indexOf('@');
  const [name, version] = [text.slice(0, Math.max(at, 0)), text.slice(at + 1)];
  return STREAM_NAME.test(name) && isVersion(version) ? { name, version } : undefined;
}

/** Later than all verdicts before, even when the clock was set back. */
function verdictTime({ verdicts, rejectedNames = [] }: Stored, clock: Clock): number {
  return Math.max(clock.now(), ...[...verdicts, ...rejectedNames].map(({ at }) => at + 1));
}

function judgedOf({ bundleId, bundle }: Target) {
  return defined({ bundleId, payload: bundle?.payload });
}

function record(
  { ports: { store, clock }, recorder }: CommandContext,
  { bundleId }: Target,
  verdict: 'approved' | 'rejected',
  message: string,
  reason?: string,
): string {
  const kind = verdict === 'approved' ? 'bundleApproved' : 'bundleVetoed';
  const event = { kind, level: 'info', bundleId, message } as const;
  store.setVerdict(defined({ bundleId, verdict, at: verdictTime(store.load(), clock), reason }), recorder.row(event));
  recorder.log(event);
  return message;
}

function titleOf({ bundleId, bundle }: Target): string {
  return bundle === undefined ? bundleId : `${bundleTitle(bundle.payload)} (${shortDigest(bundleId)})`;
}

function targetOf(
  name: string,
  adopted: readonly VerifiedBundle[],
  assessment: Assessment | undefined,
): Target | undefined {
  const known = [...adopted, ...seenIn(assessment)];
  if (isDigest(name)) return { bundleId: name, bundle: known.find(({ bundleId }) => bundleId === name) };
  const [short, other] = bundlesByDigest(adopted, name);
  if (short !== undefined && other === undefined) return { bundleId: short.bundleId, bundle: short };
  const found = namedBy(name, adopted, assessment);
  const [first, second] = found.values();
  if (first !== undefined && second === undefined) return { bundleId: first.bundleId, bundle: first };
  if (first !== undefined) {
    const ids = [...found.keys()].join(' or ');
    throw refuse('engine/ambiguous', `${name} names ${found.size} bundles: say which by its digest, ${ids}`);
  }
  return undefined;
}

function namedBy(
  name: string,
  adopted: readonly VerifiedBundle[],
  assessment: Assessment | undefined,
): ReadonlyMap<BundleId, VerifiedBundle> {
  const known = [...adopted, ...seenIn(assessment)];
  return new Map(
    known.filter(({ payload }) => bundleName(payload) === name).map((bundle) => [bundle.bundleId, bundle] as const),
  );
}

function unknownName(name: string, adopted: readonly VerifiedBundle[], assessment: Assessment | undefined) {
  const known = [...adopted, ...seenIn(assessment)];
  const names = [...new Set(known.map(({ payload }) => bundleName(payload)))].join(', ');
  return refuse(
    'engine/no-bundle',
    `no bundle ${name} is known or plugged in (${names || 'none is'}); ahead of its stick a bundle is named by its digest, sha256:<64 hex digits>, and one that you reject also by NAME@VERSION`,
  );
}

/** These are not adopted, but have a valid signature, so that their names can be trusted. */
function seenIn(assessment: Assessment | undefined): readonly VerifiedBundle[] {
  return [
    ...(assessment?.awaiting ?? []).flatMap(({ bundle }) => bundle ?? []),
    ...(assessment?.adoptions ?? []).map(({ found }) => found.bundle),
    ...(assessment?.rejections ?? []).flatMap(({ bundle }) => bundle ?? []),
  ];
}

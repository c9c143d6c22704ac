import { judgeRules } from '../../domain/activation/gates.ts';
import { pathOf } from '../../domain/activation/read-paths.ts';
import type { Assessment } from '../../domain/assess/assess.ts';
import type { BundleAssessment } from '../../domain/assess/assess-bundle.ts';
import { isComplete } from '../../domain/assess/assess-order.ts';
import { bundleName, bundleTitle } from '../../domain/model/bundle.ts';
import { lackingCount } from '../../domain/preload/supply.ts';
import { componentNames, soakAfter, soakWithAttested } from '../../domain/release/evidence.ts';
import {
  commandName,
  currentRelease,
  hasBegun,
  isProven,
  isRequested,
  isRetired,
  isRolledBack,
  keptBundles,
  lastProven,
} from '../../domain/release/recorded-phase.ts';
import { confirmationMessage, holdMessage, whyHeld } from '../../domain/report/hold-text.ts';
import { REFUSING } from '../../domain/report/reasons/holds.ts';
import { reasonText } from '../../domain/report/reasons/reason-text.ts';
import type { PastRelease } from '../../domain/state/past.ts';
import { type StoredBundle, stampAfter } from '../../domain/state/state.ts';
import { clip, oneLine } from '../../platform/plain-text.ts';
import type { EventRow } from '../../ports/state.ts';
import { resumePreloads } from '../effects/release-effects.ts';
import { authorOf, bundleCalled, bundlesByDigest, type CommandContext, findBundle, refuse } from './command-context.ts';
import { type PauseArgs, pauseRollOut, resumeRollOut } from './pause-commands.ts';
import { type UnpinArgs, unpin, unpinUnclaimed } from './unpin-commands.ts';
import { approve, reject } from './verdict-commands.ts';

interface BundleArgs {
  readonly bundle: string;
}

/**
 * Commands only record: the next round acts. Those that return a text say what follows. A refusal
 * is an AppError `engine/…` (`reject`).
 */
export class Commands {
  /** @param context with the author of the events */
  constructor(private readonly context: CommandContext) {}

  /**
   * @param args `override` confirms the rules that hold the activation
   * @throws AppError `engine/no-bundle`, `engine/not-ready`, `engine/activation-held` (`reject`)
   */
  activate({ bundle, override = false }: BundleArgs & { readonly override?: boolean }): void {
    this.run(() => this.requestActivation(bundle, override));
  }

  /**
   * @returns the release that is activated again @throws AppError `engine/no-fallback` (`reject`)
   */
  rollback({ stream }: { readonly stream: string }): string {
    return this.run(() => this.rollBack(stream));
  }

  /**
   * Proves the current release of a stream for a person who knows that it works although its
   * containers can't be seen. With `component` it begins the soak of a component that no container
   * runs, as the operating system; that holds until the next boot.
   * @throws AppError `engine/no-bundle`, `engine/ambiguous`, `engine/not-provable` (`reject`)
   */
  prove({ bundle, component }: BundleArgs & { readonly component?: string }): string {
    return this.run(() =>
      component === undefined ? prove(this.context, bundle) : proveComponent(this.context, bundle, component),
    );
  }

  /**
   * Cancels every preload that is not complete, until {@link resume} or until a medium with the
   * bundle is plugged in. The cancellation persists over restarts.
   * @throws AppError `engine/nothing-to-cancel` (`reject`)
   */
  cancel(): void {
    this.run(() => cancel(this.context));
  }

  /** Takes back {@link cancel}, and runs failed hooks again. */
  resume(): void {
    const { hookKeeper, ports } = this.context;
    const { clock, store } = ports;
    const all = store.load().bundles.map(({ bundleId }) => bundleId);
    this.run(() => {
      resumePreloads(all, store, clock.now());
      hookKeeper.retry();
    });
  }

  /**
   * Gives up a release. Observes the containers first unless `force` is given.
   * @throws AppError `engine/no-bundle`, `engine/protected`, `engine/running` (`reject`)
   */
  unpin(args: UnpinArgs, signal: AbortSignal): Promise<string> {
    return this.run(() => unpin(this.context, args, signal));
  }

  /**
   * Gives up every pin that belongs to no known release.
   * @throws AppError `engine/no-unclaimed` (`reject`), `engine/running` (`reject`) without `force`;
   *   `store/write`, `store/no-space` (`retry`)
   */
  unpinUnclaimed(args: { readonly force?: boolean }, signal: AbortSignal): Promise<string> {
    return this.run(() => unpinUnclaimed(this.context, args, signal));
  }

  /**
   * Also takes back the rejection of the name. Verdicts are given before or after a medium is
   * plugged in; the latest one counts.
   * @throws AppError `engine/no-bundle`, `engine/ambiguous` (`reject`)
   */
  approve({ bundle }: BundleArgs): string {
    return this.run(() => approve(this.context, bundle));
  }

  /**
   * Stops loading and activation, but pins stay. `name@version` also rejects later bundles.
   * @throws AppError `engine/reason` (`reject`) for one that is empty or has over 200 characters
   */
  reject({ bundle, reason }: BundleArgs & { readonly reason?: string }): string {
    return this.run(() => reject(this.context, bundle, reason));
  }

  /** @throws AppError `engine/no-fleet`, `engine/no-release`, `engine/no-pause` (`reject`) */
  pauseRollOut(args: PauseArgs): string {
    return this.run(() => pauseRollOut(this.context, args));
  }

  /**
   * @param args `id` may be `all` @throws AppError `engine/no-fleet`, `engine/no-pause` (`reject`)
   */
  resumeRollOut(args: { readonly id: string }): string {
    return this.run(() => resumeRollOut(this.context, args.id));
  }

  /** Requests a round when `command` is done, also when it failed. */
  private run<T>(command: () => T): T {
    const { wantRound } = this.context.ports;
    let done: T | undefined;
    try {
      done = command();
      return done;
    } finally {
      if (done instanceof Promise) done.then(wantRound, wantRound);
      else wantRound();
    }
  }

  private requestActivation(name: string, isConfirmed: boolean): void {
    const { ports, assessment } = this.context;
    const { clock, store, policy, node } = ports;
    const { bundles, past } = store.load();
    requireNotPast(name, bundles, past);
    const bundle = findBundle(bundles, name);
    const { paths, clockSynchronised } = requireReady(bundle, assessment());
    const path = pathOf(paths, bundle.payload.name);
    requireLiftable(bundle, this.context);
    // A request confirms only the rules that hold it.
    const { activationRequestedAt: _, activationOverrides: __, ...withoutRequest } = bundle;
    const question = { bundles, path, now: clock.now(), clockSynchronised, policy, facts: node.facts() };
    const { holds } = judgeRules(withoutRequest, question);
    if (holds.length > 0 && !isConfirmed) throw refuse('engine/activation-held', confirmationMessage(bundle, holds));
    const although = holds.length === 0 ? '' : ` and confirmed, although ${whyHeld(holds)}`;
    const codes = holds.map(({ code }) => code);
    const at = stampAfter(bundles, clock.now());
    const event = { ...requestEvent(bundle, 'Activation of', at, although), ...authorOf(this.context) };
    store.change(bundle.bundleId, { activationRequestedAt: at, activationOverrides: codes }, event);
  }

  private rollBack(stream: string): string {
    const { ports, assessment } = this.context;
    const { clock, store } = ports;
    const { bundles } = store.load();
    const name = stream === '' ? onlyStream(bundles) : stream;
    const from = currentRelease(bundles, name);
    const to = fallbackOf(bundles, name, from);
    const at = stampAfter(bundles, clock.now());
    requireReady(to, assessment());
    requireLiftable(to, this.context);
    const author = authorOf(this.context);
    const request = { ...requestEvent(to, 'Rollback to', at + 1), ...author };
    if (from === undefined) {
      store.change(to.bundleId, { activationRequestedAt: request.at, activationOverrides: [] }, request);
    } else {
      const [one, other] = [bundleTitle(from.payload), bundleTitle(to.payload)];
      const after = `It is not activated again automatically; 'stickpin activate ${commandName(from, bundles)}' tries it once more`;
      const message = `${one} is given up by hand, to go back to ${other}. ${after}`;
      const event = { at, kind: 'bundleRolledBack', bundleId: from.bundleId, message, ...author };
      const text = `${one} was rolled back to ${other} by hand`;
      store.rollBack(from.bundleId, event, { bundleId: to.bundleId, event: request }, { text, isByHand: true });
    }
    return bundleName(to.payload);
  }
}

/** @throws AppError `engine/not-ready` (`reject`) for a release that is over */
function requireNotPast(name: string, bundles: readonly StoredBundle[], past: readonly PastRelease[] = []): void {
  if (bundleCalled(bundles, name) !== undefined) return;
  const [byDigest] = bundlesByDigest(past, name);
  const found = byDigest ?? past.findLast(({ payload }) => bundleName(payload) === name);
  if (found === undefined) return;
  const day = new Date(found.record.retiredAt ?? 0).toISOString().slice(0, 10);
  const why = `it was retired on ${day}, and nothing of it is left on this node; plug in its stick`;
  throw refuse('engine/not-ready', `${bundleTitle(found.payload)} can't be activated yet: ${why}`);
}

/** @throws AppError with the code of a hold that a request does not lift (`reject`) */
function requireLiftable(bundle: StoredBundle, { ports: { clock, store }, judge }: CommandContext): void {
  const stored = store.load();
  const requested = { ...bundle, activationRequestedAt: stampAfter(stored.bundles, clock.now()) };
  const bundles = stored.bundles.map((other) => (other.bundleId === bundle.bundleId ? requested : other));
  const entry = judge({ ...stored, bundles })?.bundles.find((other) => other.bundle === requested);
  const hold = entry?.holds.find(({ code }) => REFUSING.has(code));
  if (hold !== undefined) throw refuse(hold.code, holdMessage(hold));
}

function requestEvent({ bundleId, payload }: StoredBundle, what: string, at: number, although = ''): EventRow {
  const message = `${what} ${bundleTitle(payload)} was asked for${although}`;
  return { at, kind: 'activation-requested', bundleId, message };
}

function onlyStream(bundles: readonly StoredBundle[]): string {
  const streams = [...new Set(keptBundles(bundles).map((bundle) => bundle.payload.name))];
  const [only] = streams;
  if (only !== undefined && streams.length === 1) return only;
  if (only === undefined)
    throw refuse('engine/no-fallback', 'no release is known here, so there is none to go back to');
  throw refuse('engine/no-fallback', `several streams are known here; say which: ${streams.join(', ')}`);
}

function fallbackOf(bundles: readonly StoredBundle[], name: string, from: StoredBundle | undefined): StoredBundle {
  const others = bundles.filter((bundle) => bundle.bundleId !== from?.bundleId);
  const to = lastProven(others, name);
  if (to !== undefined) return to;
  throw refuse(
    'engine/no-fallback',
    `${name} has no earlier proven release here that is still pinned; 'stickpin list' shows what there is, 'stickpin activate' takes any that is ready`,
  );
}

function requireReady(bundle: StoredBundle, assessment: Assessment | undefined): Assessment {
  const entry = assessment?.bundles.find((other) => other.bundle.bundleId === bundle.bundleId);
  if (entry?.withdrawn !== undefined) throw refuse('engine/withdrawn', reasonText(entry.withdrawn));
  // A retired release is pinned and pulled again on request, if media have blobs or its bundle.
  // Other sticks may bring the rest later.
  const isAtHand =
    entry !== undefined &&
    (entry.media.length > 0 ||
      (entry.pullableImages.length >= entry.absentImages.length && !entry.absentArtifacts.length));
  if (entry?.phase === 'retired' && isAtHand && assessment) return assessment;
  if (assessment && entry && isComplete(entry)) return assessment;
  throw refuse('engine/not-ready', `${bundleTitle(bundle.payload)} can't be activated yet: ${whyNotReady(entry)}`);
}

function whyNotReady(entry: BundleAssessment | undefined): string {
  if (entry?.phase === 'retired') {
    const what = entry.absentArtifacts.length > 0 ? 'images and artifacts' : 'images';
    return `it is retired and ${lackingCount(entry)} of its ${what} are gone; plug in its stick`;
  }
  if (entry?.reason !== undefined) return reasonText(entry.reason);
  return `it is ${entry?.phase ?? 'not looked at yet'}`;
}

/** How much of an unknown name a message shows. */
const NAME_CHARS = 80;

/** INVARIANT: `provenAt` is recorded last. */
function prove(context: CommandContext, name: string): string {
  const { ports, recorder, assessment } = context;
  const { clock, store, node } = ports;
  const { bundles } = store.load();
  const bundle = findBundle(bundles, name);
  requireProvable(bundle, bundles);
  requireWhole(bundle, assessment());
  const { bundleId, payload, activatedAt = 0 } = bundle;
  store.change(bundleId, { soak: { ...soakAfter(bundle.soak, [], node.boot(), activatedAt), proof: 'hand' } });
  const message = `${bundleTitle(payload)} was proven by hand: it is the last known good release now`;
  const at = stampAfter(bundles, clock.now());
  store.change(bundleId, { provenAt: at }, { at, kind: 'bundleProven', bundleId, message, ...authorOf(context) });
  recorder.log({ kind: 'bundleProven', level: 'info', bundleId, message });
  return `${message}. Older releases that are needed no longer are retired.`;
}

function proveComponent({ ports: { store, node } }: CommandContext, name: string, component: string): string {
  const { bundles } = store.load();
  const bundle = findBundle(bundles, name);
  const title = bundleTitle(bundle.payload);
  if (!componentNames(bundle).has(component)) {
    throw refuse('engine/not-provable', `${title} has no component ${clip(oneLine(component), NAME_CHARS)}`);
  }
  if (isProven(bundle) && !isRolledBack(bundle)) return `${title} is proven already.`;
  requireProvable(bundle, bundles);
  const soak = soakWithAttested(bundle.soak, component, node.boot(), bundle.activatedAt ?? 0);
  store.change(bundle.bundleId, { soak });
  return `${component} of ${title} runs, on your word, until the next boot. It counts as the containers do.`;
}

function requireProvable(bundle: StoredBundle, bundles: readonly StoredBundle[]): void {
  const name = bundleName(bundle.payload);
  const current = currentRelease(bundles, bundle.payload.name);
  if (isRetired(bundle) || bundle.activatedAt === undefined) {
    throw refuse('engine/not-provable', `${name} is not activated, so nobody can know that it works`);
  }
  if (current?.bundleId !== bundle.bundleId) {
    const which = current === undefined ? 'another release' : bundleName(current.payload);
    throw refuse('engine/not-provable', `${name} is not the current release: ${which} was activated after it`);
  }
  if (isRequested(bundle, bundles) || hasBegun(bundle)) {
    const until = 'its new activation is not done yet, and would begin its proof anew';
    throw refuse('engine/not-provable', `${name} can't be proven now: ${until}. Prove it once that is done`);
  }
  if (isRolledBack(bundle)) {
    const again = `'stickpin activate ${name}' activates it again`;
    throw refuse('engine/not-provable', `${name} was rolled back; ${again}, and then it may be proven`);
  }
  if (isProven(bundle)) throw refuse('engine/not-provable', `${name} is proven already`);
}

/** A release whose check has no result counts as whole. */
function requireWhole({ bundleId, payload }: StoredBundle, assessment: Assessment | undefined): void {
  if (assessment?.provable.has(bundleId) === true) return;
  const entry = assessment?.bundles.find(({ bundle }) => bundle.bundleId === bundleId);
  const why =
    entry?.reason === undefined ? 'its images are not seen as present, pinned and checked' : reasonText(entry.reason);
  throw refuse('engine/not-provable', `${bundleName(payload)} can't be proven now: ${why}`);
}

/**
 * INVARIANT: it is recorded before the pulls are aborted, so that none starts again after a crash.
 */
function cancel(context: CommandContext): void {
  const { ports, tasks, assessment } = context;
  const { clock, store, media } = ports;
  const cut = (assessment()?.bundles ?? []).filter(
    (entry) => lackingCount(entry) > 0 && entry.phase !== 'retired' && entry.bundle.cancelled === undefined,
  );
  if (cut.length === 0) throw refuse('engine/nothing-to-cancel', 'nothing is being preloaded, and no preload waits');
  const bundleIds = cut.map(({ bundle }) => bundle.bundleId);
  const titles = cut.map(({ bundle }) => bundleTitle(bundle.payload)).join(', ');
  const message = `Cancelling of ${titles} was asked for`;
  const plugged = media.list().map(({ mediumId }) => mediumId);
  store.cancel(bundleIds, plugged, { at: clock.now(), kind: 'cancel-requested', message, ...authorOf(context) });
  for (const task of tasks.running()) {
    if (task.kind === 'pull' && bundleIds.includes(task.bundleId)) tasks.cancel(task);
  }
}

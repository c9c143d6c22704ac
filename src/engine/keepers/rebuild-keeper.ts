import { parsePublicKey } from '../../bundle/keys/keys.ts';
import type { VerifiedBundle } from '../../domain/model/bundle.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import { type JudgedDocuments, planRebuild, type RebuildPlan } from '../../domain/release/rebuild.ts';
import { rebuiltEvent, refusedRebuildEvent } from '../../domain/report/events/release-events.ts';
import type { Snapshot } from '../../domain/report/snapshot.ts';
import type { Policy } from '../../domain/settings/settings.ts';
import type { PinnedRelease } from '../../domain/state/release-record.ts';
import { type KeyRotation, NO_ROTATION } from '../../domain/trust/approval.ts';
import { rotatesKeys, type SignatureRules } from '../../domain/trust/role.ts';
import { defined } from '../../platform/defined.ts';
import type { Log } from '../../platform/log.ts';
import type { SignedBundles } from '../../ports/blobs.ts';
import type { StateStore } from '../../ports/state.ts';
import type { TrustPort } from '../../ports/trust.ts';
import { type EventRecorder, FailureLog } from '../reporting/event-recorder.ts';
import type { PinKeeper } from './state-keepers.ts';

export class RebuildKeeper {
  private tried = '';
  /** After a loss only what was there before counts: later ones may be in adoption. */
  private before: ReadonlySet<BundleId> | undefined;
  private readonly refused = new Set<string>();
  private readonly failures: FailureLog;

  constructor(
    private readonly store: StateStore,
    private readonly policy: Policy,
    private readonly signedBundles: SignedBundles,
    private readonly trust: TrustPort,
    private readonly recorder: EventRecorder,
    private readonly alive: () => void,
    private readonly isStateLost: boolean,
    private readonly pinKeeper: PinKeeper,
    log: Log,
  ) {
    this.failures = new FailureLog(
      log,
      (reason) => `Releases can't be rebuilt now: ${reason}. It is retried automatically`,
    );
  }

  /**
   * Records again what is lost and can be proven. Call it before anything is decided or served,
   * since the loss alone would remove the mirrors of the lost releases. It is tried once for each
   * loss, and when the keys, the pins or the answer of the runtime change. A failure is logged once
   * and retried in the next round. Only an abort throws.
   * @returns whether anything was recorded, or added to the pins
   */
  async reconcile(snapshot: Snapshot, signal: AbortSignal): Promise<boolean> {
    try {
      const areRebuilt = await this.rebuild(snapshot, signal);
      this.failures.succeeded();
      return areRebuilt;
    } catch (error) {
      signal.throwIfAborted();
      this.tried = '';
      this.failures.failed(error);
      return false;
    }
  }

  private async rebuild(snapshot: Snapshot, signal: AbortSignal): Promise<boolean> {
    const { store, policy, isStateLost } = this;
    const { observed, memory, assessment } = snapshot;
    const stored = store.load();
    const { unclaimed } = assessment.pins;
    // Pins and tags are no record before the runtime answers.
    if (observed.runtime.kind !== 'reachable' || (unclaimed.length === 0 && !isStateLost)) return false;
    const now = JSON.stringify([observed.trustRevision, unclaimed, stored.bundles.length]);
    if (now === this.tried) return false;
    const known = new Set(stored.bundles.map(({ bundleId }) => bundleId));
    const judged = await this.judgeLost((bundleId) => !known.has(bundleId), signal);
    const plan = planRebuild({
      judged,
      observed,
      stored: store.load(),
      floors: memory.floors,
      unclaimed: new Set(unclaimed),
      isStateLost,
      policy,
      place: "this node's own disk",
    });
    this.record(plan);
    const isPinned = isStateLost && (await this.keepPins(plan, signal));
    this.tried = now;
    return isPinned || plan.rebuilt.length > 0;
  }

  /**
   * The node had adopted what it refuses now: in doubt its pins stay, as those of no known release.
   */
  private async keepPins({ refused }: RebuildPlan, signal: AbortSignal): Promise<boolean> {
    const releases: PinnedRelease[] = [];
    for (const { bundleId } of refused) {
      const bundle = await this.signedBundles.unproven(bundleId, signal);
      if (bundle === undefined) continue;
      const { name, version } = bundle.payload;
      const pinned = bundle.contents.images.filter(({ pin }) => pin);
      releases.push({ bundleId, name, version, references: pinned.map(({ reference }) => reference).sort() });
    }
    return this.pinKeeper.addUnclaimed(releases);
  }

  private async judgeLost(
    isWanted: (bundleId: BundleId) => boolean,
    signal: AbortSignal,
  ): Promise<readonly JudgedDocuments[]> {
    const { signedBundles, alive, isStateLost } = this;
    const judged: JudgedDocuments[] = [];
    const kept = await signedBundles.list(signal);
    this.before ??= new Set(kept);
    for (const bundleId of kept) {
      if (!isWanted(bundleId) || (isStateLost && !this.before.has(bundleId))) continue;
      alive();
      judged.push({ bundleId, found: await signedBundles.judge(bundleId, signal) });
    }
    return judged;
  }

  /** What a bundle had revoked is revoked again. Keys that it had brought are not trusted. */
  private record({ rebuilt, refused }: RebuildPlan): void {
    const { store, recorder, policy, trust } = this;
    for (const release of rebuilt) {
      const { bundle } = release;
      const rules = { threshold: policy.trust.threshold, roles: trust.roles(), revocations: trust.revocations() };
      const rotation = { keys: [], revoked: rotationOf(bundle, rules, store.load().rotation).revoked };
      const event = rebuiltEvent(release);
      store.rebuild(bundle, recorder.row(event), rotation);
      recorder.log(event);
    }
    for (const refusal of refused) {
      const event = refusedRebuildEvent(refusal);
      if (!this.refused.has(event.message)) recorder.record(event);
      this.refused.add(event.message);
    }
  }
}

/** Keys that bundles may bring into one role. This also limits how many a role can revoke. */
const KEYS_OF_ROLE = 256;

/**
 * The keys that `bundle` adds or revokes (bundle format, `trust`), in the role that it names;
 * {@link NO_ROTATION} without enough signers. A role revokes only its own keys.
 * @param before the rotations of other bundles
 */
export function rotationOf(bundle: VerifiedBundle, rules: SignatureRules, before: KeyRotation): KeyRotation {
  if (!rotatesKeys(bundle, rules)) return NO_ROTATION;
  const { bundleId, payload } = bundle;
  const { role, keys = [], names = {}, revoked = [] } = payload.trust ?? {};
  const by = defined({ bundleId, role });
  const brought = keys.map((pem) => {
    // Each key was parsed with the payload.
    const { keyId, otherIds } = parsePublicKey(pem, 'of trust.keys');
    const name = Object.hasOwn(names, keyId) ? names[keyId] : undefined;
    return { otherIds, key: { ...defined({ keyId, pem, name }), ...by } };
  });
  const all = { keys: brought.map(({ key }) => key), revoked: revoked.map((keyId) => ({ keyId, ...by })) };
  const roleInForce = role === undefined ? undefined : rules.roles?.find(({ name }) => name === role);
  if (roleInForce === undefined) return all;
  const ids = new Set([
    ...(roleInForce.keyIds ?? []),
    ...brought.flatMap(({ otherIds, key: { keyId } }) => [keyId, ...otherIds]),
  ]);
  const earlier = new Set(before.keys.flatMap((key) => (key.role === role ? [key.keyId] : [])));
  const isNew = ({ keyId }: { readonly keyId: string }) => !earlier.has(keyId);
  const added = all.keys.filter(isNew).slice(0, Math.max(0, KEYS_OF_ROLE - earlier.size));
  return {
    keys: all.keys.filter((key) => !isNew(key) || added.includes(key)),
    revoked: all.revoked.filter(({ keyId }) => ids.has(keyId)),
  };
}

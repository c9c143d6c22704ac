import type { BundleId } from '../../domain/model/digest.ts';
import type { StoredBundle } from '../../domain/state/state.ts';
import { NO_ROTATION } from '../../domain/trust/approval.ts';
import type { StateStore, StreamStore } from '../../ports/state.ts';
import { append, type Recording, write, writeThrough } from './recording.ts';
import type { BundleRows, CancellationRows, PulledImageRows } from './tables/bundle-rows.ts';
import type { TrustRows, TrustState } from './tables/trust-rows.ts';

/** So that a round needs no query. */
export interface BundleMemory {
  /** In the order of adoption. */
  bundles: readonly StoredBundle[];
  pulledByUs: ReadonlySet<string>;
  trust: TrustState;
}

/** `memory` changes after the commit. */
export interface BundleParts {
  readonly recording: Recording;
  readonly memory: BundleMemory;
  readonly bundleRows: BundleRows;
  readonly trustRows: TrustRows;
}

export function createAdoptionStore({
  recording,
  memory,
  bundleRows,
  trustRows,
}: BundleParts): Pick<StateStore, 'adopt' | 'setSigners'> {
  return {
    adopt: (bundle, event, rotation = NO_ROTATION, isClaim = false) => {
      if (memory.bundles.some((known) => known.bundleId === bundle.bundleId)) return;
      memory.trust = writeThrough(recording, () => {
        bundleRows.insert(bundle, event.at, isClaim ? event.at : null);
        trustRows.addRotation(rotation, event.at);
        append(recording, event);
        return trustRows.load();
      });
      const claimed = isClaim && { claimedAt: event.at };
      memory.bundles = [...memory.bundles, { ...bundle, adoptedAt: event.at, ...claimed }];
    },
    setSigners: (bundleId, signers, event) => {
      writeThrough(recording, () => {
        bundleRows.setSigners(bundleId, signers);
        append(recording, event);
      });
      const { signedBy, signerKeyIds, signerRoles = [] } = signers;
      change(memory, bundleId, { signedBy, signerKeyIds, signerRoles });
    },
  };
}

export function createRebuildStore(
  { recording, memory, bundleRows, trustRows }: BundleParts,
  cancellations: CancellationRows,
): Pick<StateStore, 'rebuild' | 'restoreTimes'> {
  return {
    rebuild: (bundle, event, rotation = NO_ROTATION) => {
      if (memory.bundles.some((known) => known.bundleId === bundle.bundleId)) return;
      memory.trust = writeThrough(recording, () => {
        bundleRows.insert(bundle, bundle.adoptedAt, bundle.claimedAt ?? null);
        bundleRows.setMilestones(bundle);
        if (bundle.cancelled !== undefined) {
          cancellations.set(bundle.bundleId, bundle.cancelled.at, bundle.cancelled.media);
        }
        trustRows.addRotation(rotation, event.at);
        append(recording, event);
        return trustRows.load();
      });
      memory.bundles = [...memory.bundles, bundle];
    },
    restoreTimes: (bundle, event) => {
      const before = memory.bundles.find((known) => known.bundleId === bundle.bundleId);
      memory.trust = writeThrough(recording, () => {
        bundleRows.setMilestones(bundle);
        if (bundle.cancelled !== undefined) {
          cancellations.set(bundle.bundleId, bundle.cancelled.at, bundle.cancelled.media);
        }
        if (bundle.resetAt !== before?.resetAt) trustRows.removeKeysOf(bundle.payload.name);
        append(recording, event);
        return trustRows.load();
      });
      change(memory, bundle.bundleId, bundle);
    },
  };
}

export function createStreamStore({ recording, memory, bundleRows, trustRows }: BundleParts): StreamStore {
  return {
    resetStream: (stream, event) => {
      memory.trust = writeThrough(recording, () => {
        trustRows.removeKeysOf(stream);
        bundleRows.setReset(stream, event.at);
        append(recording, event);
        return trustRows.load();
      });
      memory.bundles = memory.bundles.map((bundle) =>
        bundle.payload.name === stream ? { ...bundle, resetAt: event.at } : bundle,
      );
    },
  };
}

export function createActivationStore({
  recording,
  memory,
  bundleRows,
}: BundleParts): Pick<StateStore, 'requestActivation' | 'rollBack'> {
  return {
    requestActivation: (bundleId, overrides, event) => {
      write(recording, () => {
        bundleRows.set(bundleId, {
          activation_requested_at: event.at,
          activation_overrides: JSON.stringify(overrides),
        });
        append(recording, event);
      });
      change(memory, bundleId, { activationRequestedAt: event.at, activationOverrides: overrides });
    },
    rollBack: (bundleId, event, next, reason = event.message) => {
      writeThrough(recording, () => {
        bundleRows.set(bundleId, { rolled_back_at: event.at, rolled_back_reason: reason });
        append(recording, event);
        bundleRows.setMark(next.bundleId, 'activationRequestedAt', next.event.at);
        append(recording, next.event);
      });
      change(memory, bundleId, { rolledBackAt: event.at, rolledBackReason: reason });
      change(memory, next.bundleId, { activationRequestedAt: next.event.at });
    },
  };
}

export function createMilestoneStore({
  recording,
  memory,
  bundleRows,
}: BundleParts): Pick<StateStore, 'mark' | 'setSoak' | 'setActivationBegun'> {
  return {
    mark: (bundleId, what, event) => {
      writeThrough(recording, () => {
        bundleRows.setMark(bundleId, what, event.at);
        append(recording, event);
      });
      change(memory, bundleId, { [what]: event.at });
    },
    setSoak: (bundleId, soak) => {
      write(recording, () => bundleRows.set(bundleId, { soak: JSON.stringify(soak) }));
      change(memory, bundleId, { soak });
    },
    setActivationBegun: (bundleId, at) => {
      writeThrough(recording, () => bundleRows.set(bundleId, { activation_begun_at: at }));
      memory.bundles = memory.bundles.map((bundle) => {
        if (bundle.bundleId !== bundleId) return bundle;
        const { activationBegunAt: _, ...others } = bundle;
        return at === undefined ? others : { ...others, activationBegunAt: at };
      });
    },
  };
}

export function createRetirementStore({ recording, memory, bundleRows }: BundleParts): Pick<StateStore, 'retire'> {
  return {
    retire: (bundleId, removeImages, event) => {
      writeThrough(recording, () => {
        bundleRows.set(bundleId, { retired_at: event.at, remove_images: Number(removeImages) });
        append(recording, event);
      });
      change(memory, bundleId, { retiredAt: event.at, removeImages });
    },
  };
}

export function createPreloadStore(
  { recording, memory, bundleRows }: BundleParts,
  cancellations: CancellationRows,
  pulledImages: PulledImageRows,
): Pick<StateStore, 'setPulledByUs' | 'setBadBlobs' | 'cancel' | 'setCancelledMedia'> {
  return {
    setPulledByUs: (reference, isPulledByUs) => {
      if (memory.pulledByUs.has(reference) === isPulledByUs) return;
      write(recording, () => pulledImages.set(reference, isPulledByUs));
      const others = [...memory.pulledByUs].filter((other) => other !== reference);
      memory.pulledByUs = new Set(isPulledByUs ? [...others, reference] : others);
    },
    setBadBlobs: (bundleId, badBlobs) => {
      const stored = badBlobs.length === 0 ? null : JSON.stringify(badBlobs);
      write(recording, () => bundleRows.set(bundleId, { bad_blobs: stored }));
      change(memory, bundleId, { badBlobs });
    },
    cancel: (bundleIds, media, event) => {
      writeThrough(recording, () => {
        for (const bundleId of bundleIds) {
          if (media === undefined) cancellations.remove(bundleId);
          else cancellations.set(bundleId, event.at, media);
        }
        append(recording, event);
      });
      memory.bundles = memory.bundles.map((bundle) => {
        if (!bundleIds.includes(bundle.bundleId)) return bundle;
        const { cancelled: _, ...others } = bundle;
        return media === undefined ? others : { ...others, cancelled: { at: event.at, media } };
      });
    },
    setCancelledMedia: (bundleId, media) => {
      const at = memory.bundles.find((bundle) => bundle.bundleId === bundleId)?.cancelled?.at;
      if (at === undefined) return;
      write(recording, () => cancellations.set(bundleId, at, media));
      change(memory, bundleId, { cancelled: { at, media } });
    },
  };
}

function change(memory: BundleMemory, bundleId: BundleId, fields: Partial<StoredBundle>): void {
  memory.bundles = memory.bundles.map((bundle) => (bundle.bundleId === bundleId ? { ...bundle, ...fields } : bundle));
}

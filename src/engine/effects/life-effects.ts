import { judgeRules, ruleTime, whyHeld } from '../../domain/gates/unenforced-rules.ts';
import { bundleTitle } from '../../domain/model/bundle.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import type { Event } from '../../domain/model/event.ts';
import { RULE_CODES } from '../../domain/model/rule-code.ts';
import { isProven } from '../../domain/release/recorded-phase.ts';
import type { Effect } from '../../domain/state/effect.ts';
import { stampAfter } from '../../domain/state/stamp.ts';
import type { StoredBundle } from '../../domain/state/state.ts';
import type { Clock } from '../../platform/clock.ts';
import { formatCount } from '../../platform/sizes.ts';
import type { ContainersPort } from '../../ports/runtime.ts';
import type { EventRow, StateStore } from '../../ports/state.ts';
import type { EventRecorder } from '../reporting/event-recorder.ts';

/** The effects of what comes after activation. */
export type LifeEffect = Extract<
  Effect,
  {
    readonly kind:
      | 'record-soak'
      | 'record-active'
      | 'record-proven'
      | 'record-rolled-back'
      | 'request-activation'
      | 'take-over'
      | 'retire'
      | 'remove-images';
  }
>;

/** What {@link createLifeEffects} acts on. */
export interface LifeEffectDependencies {
  readonly clock: Clock;
  readonly store: StateStore;
  readonly recorder: EventRecorder;
  readonly containers: ContainersPort;
  /** Called before each step of an effect that has many. */
  readonly alive: () => void;
}

/** Performs effects on releases after their activation. Each is idempotent. @throws AppError of the adapter that did it */
export function createLifeEffects({ clock, store, recorder, containers, alive }: LifeEffectDependencies) {
  const bundleOf = (bundleId: BundleId) => store.load().bundles.find((bundle) => bundle.bundleId === bundleId);
  const titleOf = (bundleId: BundleId) => {
    const bundle = bundleOf(bundleId);
    return bundle === undefined ? bundleId : bundleTitle(bundle.payload);
  };
  /** Records with a stamp that is later than all before, then logs. */
  const record = (bundle: StoredBundle, event: Omit<Event, 'bundleId'>, write: (row: EventRow) => void) => {
    const told = { ...event, bundleId: bundle.bundleId };
    write({ ...recorder.row(told), at: stampAfter(store.load().bundles, clock.now()) });
    recorder.log(told);
  };

  function recordActive(bundle: StoredBundle): void {
    const message = `${bundleTitle(bundle.payload)} is active: containers run from its images`;
    record(bundle, { kind: 'bundleActive', level: 'info', message }, (row) =>
      store.mark(bundle.bundleId, 'activeAt', row),
    );
  }

  function recordProven(bundle: StoredBundle): void {
    const message = `${bundleTitle(bundle.payload)} is proven: it is the last known good release now`;
    record(bundle, { kind: 'bundleProven', level: 'info', message }, (row) =>
      store.mark(bundle.bundleId, 'provenAt', row),
    );
  }

  function recordRolledBack(bundle: StoredBundle, to: BundleId): void {
    const name = `${bundle.payload.name}@${bundle.payload.version}`;
    const message = `${bundleTitle(bundle.payload)} was rolled back: ${titleOf(to)} runs again, and gets its tags back. It is not activated again by itself; 'stickpin activate ${name}' tries it once more, 'stickpin unpin ${name}' gives it up`;
    record(bundle, { kind: 'bundleRolledBack', level: 'warn', message }, (row) => {
      const why = `Activation of ${titleOf(to)} was asked for by itself, since it runs again`;
      const event = { at: row.at + 1, kind: 'activation-requested', bundleId: to, message: why };
      store.rollBack(bundle.bundleId, row, { bundleId: to, event });
    });
  }

  function requestActivation(bundle: StoredBundle, components: readonly string[]): void {
    const message = `${bundleTitle(bundle.payload)} runs, though it was not activated here: ${components.join(', ')} ${components.length === 1 ? 'has' : 'have'} containers of its images. It is activated, so that its tags name what runs${although(bundle)}`;
    record(bundle, { kind: 'bundleSeenRunning', level: 'info', message }, (row) =>
      store.requestActivation(bundle.bundleId, RULE_CODES, row),
    );
  }

  /** Whoever started it has decided: to leave its tags elsewhere would start the other release with the next pod. */
  function although(bundle: StoredBundle): string {
    const { holds } = judgeRules(bundle, { now: ruleTime(store.load().bundles, clock.now()) });
    return holds.length === 0 ? '' : `, although ${whyHeld(holds)}`;
  }

  /** INVARIANT: `activeAt` comes last, since with it nothing is left to be taken over. */
  function takeOver(bundle: StoredBundle, { from, retireFrom }: Extract<LifeEffect, { kind: 'take-over' }>): void {
    const old = bundleOf(from);
    if (old === undefined || bundle.activatedAt === undefined) return;
    const message = `${bundleTitle(bundle.payload)} has the same images as ${bundleTitle(old.payload)} and takes its place`;
    const event = { kind: 'bundleTakesOver', level: 'info', message } as const;
    if (old.soak !== undefined) store.setSoak(bundle.bundleId, { ...old.soak, activatedAt: bundle.activatedAt });
    if (old.provenAt !== undefined && !isProven(bundle)) recordProven(bundle);
    record(bundle, event, (row) => store.mark(bundle.bundleId, 'activeAt', row));
    if (retireFrom)
      retire(old, { removeImages: false, why: `, since ${bundleTitle(bundle.payload)} has the same images` });
  }

  function retire(
    bundle: StoredBundle,
    {
      removeImages,
      why,
      kind = 'bundleRetired',
    }: { removeImages: boolean; why: string; kind?: 'bundleRetired' | 'roomMade' },
  ): void {
    const images = removeImages ? '; images that only it has are removed' : '';
    const message = `${bundleTitle(bundle.payload)} is retired${why}: it is pinned no longer${images}`;
    record(bundle, { kind, level: 'info', message }, (row) => store.retire(bundle.bundleId, removeImages, row));
  }

  /** Goes on after a failure, so that one image in use does not keep the others; the first failure is thrown. */
  async function removeImages(
    bundle: StoredBundle,
    { images }: Extract<LifeEffect, { kind: 'remove-images' }>,
    signal: AbortSignal,
  ): Promise<void> {
    const failures: unknown[] = [];
    for (const { imageId, containerIds } of images) {
      alive();
      try {
        for (const containerId of containerIds) await containers.removeContainer(containerId, signal);
        await containers.removeImage(imageId, signal);
      } catch (error) {
        signal.throwIfAborted();
        failures.push(error);
      }
    }
    const count = images.length - failures.length;
    if (count > 0) {
      const message = `Removed ${formatCount(count, 'image')} that only ${bundleTitle(bundle.payload)} had`;
      recorder.tell({ kind: 'imagesRemoved', level: 'info', bundleId: bundle.bundleId, message });
    }
    if (failures.length > 0) throw failures[0];
  }

  return {
    execute: async (effect: LifeEffect, signal: AbortSignal): Promise<void> => {
      const bundle = bundleOf(effect.bundleId);
      if (bundle === undefined) return;
      switch (effect.kind) {
        case 'record-soak':
          return store.setSoak(effect.bundleId, effect.soak);
        case 'record-active':
          return recordActive(bundle);
        case 'record-proven':
          return recordProven(bundle);
        case 'record-rolled-back':
          return recordRolledBack(bundle, effect.to);
        case 'request-activation':
          return requestActivation(bundle, effect.components);
        case 'take-over':
          return takeOver(bundle, effect);
        case 'retire': {
          const { removeImages: isRemoved, roomFor } = effect;
          if (roomFor === undefined) return retire(bundle, { removeImages: isRemoved, why: '' });
          return retire(bundle, {
            removeImages: isRemoved,
            why: ` early, to make room for ${titleOf(roomFor)}`,
            kind: 'roomMade',
          });
        }
        case 'remove-images':
          return removeImages(bundle, effect, signal);
      }
    },
  };
}

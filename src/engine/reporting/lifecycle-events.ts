import { askRules, type RuleQuestion } from '../../domain/gates/gates.ts';
import { bundleTitle } from '../../domain/model/bundle.ts';
import type { Event } from '../../domain/model/condition.ts';
import { commandName } from '../../domain/release/recorded-phase.ts';
import { whyHeld } from '../../domain/report/hold-text.ts';
import type { StoredBundle } from '../../domain/state/state.ts';
import { formatCount } from '../../platform/sizes.ts';

/** Containers of an activated release run for the first time. */
export function activeEvent({ bundleId, payload }: StoredBundle): Event {
  const message = `${bundleTitle(payload)} is active: containers run from its images`;
  return { kind: 'bundleActive', level: 'info', bundleId, message };
}

/** A release has run for the soak time, or counts as proven without that. */
export function provenEvent({ bundleId, payload, soak }: StoredBundle): Event {
  const isUnseen = soak?.proof === 'without-evidence';
  const although = isUnseen ? ', although no container of it was seen (lifecycle.without_evidence)' : '';
  const message = `${bundleTitle(payload)} is proven${although}: it is the last known good release now`;
  return { kind: 'bundleProven', level: 'info', bundleId, message };
}

/** An earlier release runs again. @param toTitle that release */
export function rolledBackEvent(bundle: StoredBundle, toTitle: string, bundles: readonly StoredBundle[]): Event {
  const { bundleId, payload } = bundle;
  const name = commandName(bundle, bundles);
  const message = `${bundleTitle(payload)} was rolled back: ${toTitle} runs again, and gets its tags back. It is not activated again automatically; 'stickpin activate ${name}' tries it once more, 'stickpin unpin ${name}' gives it up`;
  return { kind: 'bundleRolledBack', level: 'warn', bundleId, message };
}

/**
 * A release runs that was not activated here. Its rules don't hold its activation: somebody has
 * started it, and if its tags named another release, the next pod would start that one.
 */
export function seenRunningEvent(bundle: StoredBundle, components: readonly string[], question: RuleQuestion): Event {
  const { bundleId, payload } = bundle;
  const { holds } = askRules(bundle, question);
  const although = holds.length === 0 ? '' : `, although ${whyHeld(holds)}`;
  const have = components.length === 1 ? 'has' : 'have';
  const message = `${bundleTitle(payload)} runs, though it was not activated here: ${components.join(', ')} ${have} containers of its images. It is activated, so that its tags name what runs${although}`;
  return { kind: 'bundleSeenRunning', level: 'info', bundleId, message };
}

/** A release has the very same images as `old`. */
export function takesOverEvent({ bundleId, payload }: StoredBundle, old: StoredBundle): Event {
  const message = `${bundleTitle(payload)} has the same images as ${bundleTitle(old.payload)} and takes its place`;
  return { kind: 'bundleTakesOver', level: 'info', bundleId, message };
}

/** How a release was retired. */
export interface Retirement {
  readonly removeImages: boolean;
  /** Text after "is retired". Empty for none. */
  readonly why: string;
  /** Default `bundleRetired`. */
  readonly kind?: 'bundleRetired' | 'roomMade';
}

/** A release was retired. */
export function retiredEvent({ bundleId, payload }: StoredBundle, retirement: Retirement): Event {
  const { removeImages, why, kind = 'bundleRetired' } = retirement;
  const images = removeImages ? '; images that only it has are removed' : '';
  const message = `${bundleTitle(payload)} is retired${why}: it is no longer pinned${images}`;
  return { kind, level: 'info', bundleId, message };
}

/** Why a release is retired that never became complete: the end of `TITLE is retired`. */
export function incompleteWhy(title: string): string {
  return `, since it was not complete for the time of retention.incomplete and no plugged medium has it ('stickpin activate' asks for ${title} again)`;
}

/** Images of a retired release were removed. */
export function imagesRemovedEvent({ bundleId, payload }: StoredBundle, imageCount: number, tagCount: number): Event {
  const counts = [
    ...(imageCount > 0 ? [formatCount(imageCount, 'image')] : []),
    ...(tagCount > 0 ? [formatCount(tagCount, 'tag')] : []),
  ];
  const message = `Removed ${counts.join(' and ')} that only ${bundleTitle(payload)} had`;
  return { kind: 'imagesRemoved', level: 'info', bundleId, message };
}

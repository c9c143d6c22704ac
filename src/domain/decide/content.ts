import type { Assessment } from '../assess/assess.ts';
import { diskFull } from '../preload/space.ts';
import { blobsToForget, type DamagedImage, healable } from '../release/content/damaged-images.ts';
import type { CheckCause, ContentChecks, ContentResult } from '../state/content-check.ts';
import type { Effect, Healing } from '../state/effect.ts';
import type { Memory } from '../state/memory.ts';

/** What an image was found to be counts for so long when it is to be removed for it. */
const HOLDS_MS = 10 * 60_000;

/**
 * How long after a look that has not shown what an image is the next one comes: so long after the
 * first, four times as long after each further one.
 */
const UNKNOWN_MS = 60_000;
const UNKNOWN_GROWTH = 4;
const UNKNOWN_MAX_MS = 24 * 3_600_000;

/** A check of images that is to be started. `references`: default all of kept releases. */
export interface CheckDue {
  readonly cause: Exclude<CheckCause, 'request'>;
  readonly references?: readonly string[];
}

/** What is to be done about the content of images. */
export interface ContentPlan {
  readonly effects: readonly Effect[];
  readonly check?: CheckDue;
}

/**
 * What follows from checks of images. A check is started when one is due. Damaged images are
 * removed when they were checked lately and can be pulled again. Images that could not be checked
 * are checked again. `isAtRest`: nothing is pulled or activated. Otherwise only a check that is
 * overdue is started.
 */
export function contentPlan(
  memory: Memory,
  { damaged, bundles }: Assessment,
  { now, isAtRest }: { readonly now: number; readonly isAtRest: boolean },
): ContentPlan {
  const { contentChecks: checks, pullChecks } = memory;
  if (checks === undefined || checks.running !== undefined || !(isAtRest || checks.isOverdue)) return NOTHING;
  // A test pull of an image that is removed meanwhile would bring it back with what is damaged.
  if (pullChecks?.isRunning === true) return NOTHING;
  if (checks.isAwaited) return DUE;
  if (diskFull(memory, now) !== undefined) return NOTHING;
  const ready = isAtRest ? healable(damaged) : [];
  const stale = ready.filter(({ image }) => !isFresh(image.reference, checks, now));
  if (stale.length > 0) return checkAgain(stale.map(({ image }) => image.reference));
  if (ready.length > 0) return { effects: [{ kind: 'heal-images', images: ready.flatMap(healingOf) }] };
  const back = checks.healed.filter((reference) => !isAbsent(reference, bundles));
  if (back.length > 0) return checkAgain(back);
  if (!checks.isDue) return NOTHING;
  if (checks.endedAt === undefined) return DUE;
  const unknown = [...checks.results].filter(([, result]) => isUnknownLong(result, now)).map(([name]) => name);
  return unknown.length > 0 ? checkAgain(unknown) : NOTHING;
}

const NOTHING: ContentPlan = { effects: [] };
const DUE: ContentPlan = { effects: [], check: { cause: 'unclean-boot' } };

function checkAgain(references: readonly string[]): ContentPlan {
  return { effects: [], check: { cause: 'again', references } };
}

function isAbsent(reference: string, bundles: Assessment['bundles']): boolean {
  return bundles.some(({ absentImages }) => absentImages.some((image) => image.reference === reference));
}

/** A time in the future means that the wall clock was set back. */
function isUnknownLong({ at, content, unknownLooks = 1 }: ContentResult, now: number): boolean {
  if (content.kind !== 'unknown') return false;
  return at > now || now - at >= Math.min(UNKNOWN_MAX_MS, UNKNOWN_MS * UNKNOWN_GROWTH ** (unknownLooks - 1));
}

/** A time in the future means that the wall clock was set back. */
function isFresh(reference: string, { results }: ContentChecks, now: number): boolean {
  const at = results.get(reference)?.at ?? Number.NEGATIVE_INFINITY;
  return at <= now && now - at < HOLDS_MS;
}

function healingOf(damage: DamagedImage): Healing[] {
  const { image, bundles, next } = damage;
  const [bundle] = bundles;
  if (next.kind !== 'heal' || bundle === undefined) return [];
  return [
    {
      reference: image.reference,
      bundleId: bundle.bundleId,
      forget: blobsToForget(damage),
      ...(next.removal !== undefined && { removal: next.removal }),
    },
  ];
}

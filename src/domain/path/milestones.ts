import { type Sequenced, sequenceOf } from '../adoption/floors.ts';
import { type Advisory, bundleName, type Payload } from '../model/bundle.ts';

/** What is known about one release of a stream, and which bundle says so. */
export interface Milestone {
  readonly isBarrier: boolean;
  readonly isDeadEnd: boolean;
  readonly reason: string;
  /** `ocp@4.13.9`; the release itself where its own payload says so. */
  readonly saidBy: string;
}

/** As much of a bundle as it may say about releases. */
export interface Speaker extends Sequenced {
  readonly payload: Pick<Payload, 'name' | 'version' | 'sequence' | 'advisories' | 'update'>;
}

/** What is known about a release of a stream by advisories, and which bundle says so. */
export interface EffectiveAdvisory extends Advisory {
  /** `ocp@4.13.9` */
  readonly from: string;
}

/**
 * The advisories in force in a stream, by version (bundle format, `advisories`: "the newest
 * sequence wins"). Of all bundles with an advisory for a version, the one with the highest sequence
 * counts. So a later advisory without `deadend` or `barrier` ends an earlier one. Bundles from
 * before a reset of the stream do not count.
 *
 * @param bundles those that are trusted, in any order
 */
export function effectiveAdvisories(
  bundles: readonly Speaker[],
  stream: string,
): ReadonlyMap<string, EffectiveAdvisory> {
  return new Map(
    speakersOf(bundles, stream).flatMap((speaker) =>
      advisoriesIn(speaker).map((advisory) => [advisory.version, { ...advisory, from: bundleName(speaker.payload) }]),
    ),
  );
}

/**
 * The barriers and dead ends in force in a stream, by version: from releases themselves
 * (`update.barrier`, `update.deadend`) and from advisories. For each version the bundle with the
 * highest sequence wins as a whole: an advisory with `barrier` ends an earlier `deadend`. A release
 * without these members changes nothing.
 *
 * @param bundles those that are trusted, in any order
 */
export function milestonesOf(bundles: readonly Speaker[], stream: string): ReadonlyMap<string, Milestone> {
  const said = new Map<string, Milestone>();
  for (const speaker of speakersOf(bundles, stream)) {
    const { payload } = speaker;
    const { barrier, deadend } = payload.update ?? {};
    const saidBy = bundleName(payload);
    if (barrier !== undefined || deadend !== undefined) {
      const reason = [barrier?.reason, deadend?.reason].filter((one) => one !== undefined).join('; ');
      const isBoth = { isBarrier: barrier !== undefined, isDeadEnd: deadend !== undefined };
      said.set(payload.version, { ...isBoth, reason, saidBy });
    }
    for (const { version, barrier: isBarrier = false, deadend: isDeadEnd = false, reason } of advisoriesIn(speaker)) {
      said.set(version, { isBarrier, isDeadEnd, reason, saidBy });
    }
  }
  return new Map([...said].filter(([, { isBarrier, isDeadEnd }]) => isBarrier || isDeadEnd));
}

function speakersOf(bundles: readonly Speaker[], stream: string): Speaker[] {
  return bundles
    .filter(({ payload }) => payload.name === stream)
    .sort((a, b) => sequenceOf(a) - sequenceOf(b) || a.payload.sequence - b.payload.sequence);
}

/**
 * What a bundle says of other releases. Of one that was known when its stream was reset it counts
 * no more: the reset gives up what these bundles have settled for the stream.
 */
function advisoriesIn({ payload, resetAt }: Speaker): readonly Advisory[] {
  return resetAt === undefined ? (payload.advisories ?? []) : [];
}

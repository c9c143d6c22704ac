import { answeredNames, namesOnceActivated, pullsFromElsewhere } from '../release/pulls.ts';
import { commandName } from '../release/recorded-phase.ts';
import type { ContentChecks } from '../state/checks.ts';
import { type GateContext, type GateVerdict, type Hold, PASS } from './gate.ts';

type ContentHold =
  | Hold<'engine/content-unchecked', Readonly<Record<never, never>>>
  | Hold<'engine/content-damaged', { readonly image: string; readonly more: number }>;

/**
 * A runtime may list an image whose files were lost in a power cut. So a release waits for a due
 * check, for a check of images that were pulled again, and while images of it are damaged, unless
 * it was requested after the damage was found.
 */
export function content({
  bundle,
  contentChecks: checks,
}: Pick<GateContext, 'bundle' | 'contentChecks'>): GateVerdict<ContentHold> {
  if (checks === undefined) return PASS;
  const references = bundle.contents.images.map(({ reference }) => reference);
  if (checks.isAwaited || references.some((reference) => checks.healed.includes(reference))) {
    const hold = { code: 'engine/content-unchecked', data: {}, releasedBy: 'event', keepsDue: true } as const;
    return { kind: 'hold', hold };
  }
  const [image, ...others] = references.filter((reference) => isDamaged(reference, bundle, checks));
  if (image === undefined) return PASS;
  const data = { image, more: others.length };
  return { kind: 'hold', hold: { code: 'engine/content-damaged', data, releasedBy: 'event' } };
}

/** Whether an image was found damaged, without a request for its release since. */
function isDamaged(
  reference: string,
  { activationRequestedAt = 0 }: GateContext['bundle'],
  { results }: ContentChecks,
): boolean {
  const result = results.get(reference);
  return result?.content.kind === 'broken' && activationRequestedAt <= (result.brokenSince ?? 0);
}

type ForeignTagHold = Hold<
  'engine/tag-of-other-stream',
  { readonly tag: string; readonly stream: string; readonly other: string; readonly holder: string }
>;

/**
 * A tag of another stream's release. Only giving that one up ends it. `holder`: as `ocp@4.13.7`.
 */
export function foreignTags({
  bundle,
  bundles,
  foreignTag,
}: Pick<GateContext, 'bundle' | 'bundles' | 'foreignTag'>): GateVerdict<ForeignTagHold> {
  if (foreignTag === undefined) return PASS;
  const { tag, holder } = foreignTag;
  const data = { tag, stream: bundle.payload.name, other: holder.payload.name, holder: commandName(holder, bundles) };
  return { kind: 'hold', hold: { code: 'engine/tag-of-other-stream', data, releasedBy: 'person' } };
}

type ElsewhereHold = Hold<
  'engine/pulls-from-elsewhere',
  | { readonly kind: 'found'; readonly image: string; readonly usedBy: string; readonly more: number }
  | { readonly kind: 'unknown' }
>;

/** Setting `update.pulls_from_elsewhere = "hold"`: without a network such a pull would fail. */
export function pullsElsewhere({
  bundle,
  bundles,
  policy,
  imageUses,
}: Pick<GateContext, 'bundle' | 'bundles' | 'policy' | 'imageUses'>): GateVerdict<ElsewhereHold> {
  if (policy.update.pulls_from_elsewhere !== 'hold') return PASS;
  if (imageUses === undefined) return held({ kind: 'unknown' });
  const names = namesOnceActivated(bundle, bundles);
  const [first, ...others] = pullsFromElsewhere(imageUses.uses, names, answeredNames(policy));
  if (first !== undefined) {
    return held({ kind: 'found', image: first.image, usedBy: first.usedBy, more: others.length });
  }
  return imageUses.isComplete ? PASS : held({ kind: 'unknown' });
}

function held(data: ElsewhereHold['data']): GateVerdict<ElsewhereHold> {
  return { kind: 'hold', hold: { code: 'engine/pulls-from-elsewhere', data, releasedBy: 'event' } };
}

/** One release is activated at a time. `bundleId`: the one whose tags move. */
export function tagsInMotion({
  bundle,
  running,
}: Pick<GateContext, 'bundle' | 'running'>): GateVerdict<Hold<'engine/tags-in-motion', { readonly bundleId: string }>> {
  const other = running.find((task) => task.kind === 'activate' && task.bundleId !== bundle.bundleId);
  if (other === undefined) return PASS;
  const data = { bundleId: other.bundleId };
  return { kind: 'hold', hold: { code: 'engine/tags-in-motion', data, releasedBy: 'event', keepsDue: true } };
}

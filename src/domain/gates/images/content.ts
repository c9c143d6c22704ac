import type { ContentChecks } from '../../state/content-check.ts';
import { type GateContext, type GateVerdict, type Hold, PASS } from '../gate.ts';

/** `image`: the first damaged one; `more`: how many others there are. */
type ContentHold =
  | Hold<'engine/content-unchecked', Readonly<Record<never, never>>>
  | Hold<'engine/content-damaged', { readonly image: string; readonly more: number }>;

/**
 * A runtime may list an image whose files were lost in a power cut. So a release is not activated
 * before a check that is due has ended, before an image that was damaged and pulled again was
 * checked again, and while images of it are damaged, unless it was asked for after they were found.
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

/** Whether an image was found damaged, and its release was not asked for since. */
function isDamaged(
  reference: string,
  { activationRequestedAt = 0 }: GateContext['bundle'],
  { results }: ContentChecks,
): boolean {
  const result = results.get(reference);
  return result?.content.kind === 'broken' && activationRequestedAt <= (result.brokenSince ?? 0);
}

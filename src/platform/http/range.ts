/** The part of a blob that a `Range` header requests. */
export type RangeRequest =
  | { readonly kind: 'whole' }
  | { readonly kind: 'part'; readonly first: number; readonly last: number }
  | { readonly kind: 'unsatisfiable' };

/** Range units are case-insensitive (RFC 9110, section 14.1). */
const SINGLE_RANGE = /^bytes=(\d*)-(\d*)$/i;

/**
 * Parses a `Range` header (RFC 9110, section 14). Only a single range is supported. Several ranges
 * and unknown forms are ignored, as the RFC allows, and the whole blob is sent.
 */
export function parseRange(header: string | undefined, sizeBytes: number): RangeRequest {
  const match = header === undefined ? null : SINGLE_RANGE.exec(header.replaceAll(' ', ''));
  if (match === null) return { kind: 'whole' };
  const [, from = '', to = ''] = match;
  if (from === '' && to === '') return { kind: 'whole' };
  if (from === '') {
    const suffix = Number(to);
    if (suffix === 0 || sizeBytes === 0) return { kind: 'unsatisfiable' };
    return { kind: 'part', first: Math.max(0, sizeBytes - suffix), last: sizeBytes - 1 };
  }
  const first = Number(from);
  const last = to === '' ? sizeBytes - 1 : Math.min(Number(to), sizeBytes - 1);
  if (to !== '' && Number(to) < first) return { kind: 'whole' };
  return first >= sizeBytes ? { kind: 'unsatisfiable' } : { kind: 'part', first, last };
}

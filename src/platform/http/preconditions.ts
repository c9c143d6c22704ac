import type { IncomingHttpHeaders } from 'node:http';

/**
 * The entity tag of content: its digest, or another text without quotes, in quotes (RFC 9110,
 * section 8.8.3). Content by digest never changes, so it is a strong one.
 */
export function entityTagOf(version: string): string {
  return `"${version}"`;
}

/**
 * Whether the client has this content: `If-None-Match` names it, or is `*` (RFC 9110, section
 * 13.1.2; weak comparison).
 */
export function isUnmodified({ 'if-none-match': header }: IncomingHttpHeaders, version: string): boolean {
  if (header === undefined) return false;
  const tags = header.split(',').map((tag) => tag.trim().replace(/^W\//, ''));
  return tags.includes('*') || tags.includes(entityTagOf(version));
}

/**
 * The `Range` to use: none when `If-Range` names other content (RFC 9110, section 13.1.5; strong
 * comparison). A date never matches, because content has no date here.
 */
export function rangeInForce(headers: IncomingHttpHeaders, version: string): string | undefined {
  const validator = headers['if-range'];
  const matches = validator === undefined || String(validator).trim() === entityTagOf(version);
  return matches ? headers.range : undefined;
}

/**
 * Whether `Accept` allows this media type. Without the header all are allowed (RFC 9110, section
 * 12.5.1). Quality values except `q=0` are ignored, because each manifest has only one form.
 */
export function isAccepted({ accept }: IncomingHttpHeaders, mediaType: string): boolean {
  if (accept === undefined || accept.trim() === '') return true;
  const [type] = mediaType.split('/');
  return accept.split(',').some((item) => {
    const [range = '', ...parameters] = item.split(';').map((part) => part.trim().toLowerCase());
    if (parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter))) return false;
    return range === '*/*' || range === `${type}/*` || range === mediaType.toLowerCase();
  });
}

import { digestOf } from '../../platform/digest.ts';
import { hexOf } from '../model/digest.ts';

/** Prefix of everything that stickpin writes into the metadata of a Node. */
export const LABEL_PREFIX = 'stickpin.io/';

/**
 * The longest part of a label's key behind the slash, and the longest value (Kubernetes, "Labels").
 */
const LABEL_CHARACTERS = 63;
const LABEL_TEXT = /^[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?$/;
/** The longest of both, so that both labels of a stream end in the same name. */
const LONGEST_KIND = 'release-'.length;

/**
 * The label that says which release of a stream is activated (`release`), or the newest one whose
 * images are all present and pinned (`ready`): `stickpin.io/ready-ocp`.
 */
export function releaseLabel(kind: 'release' | 'ready', stream: string): string {
  return `${LABEL_PREFIX}${kind}-${streamInLabels(stream)}`;
}

/**
 * The value of these labels: the version, or `v-` and 16 hex digits where it is no valid value, as
 * with a `+`.
 *
 * @param bundle the first 16 hex digits of the bundle's id
 */
export function versionInLabels({ version, bundle }: { readonly version: string; readonly bundle: string }): string {
  return isLabelText(version, LABEL_CHARACTERS) ? version : `v-${bundle}`;
}

/** The name of a stream, or 12 hex digits of its SHA-256 where it does not fit. */
function streamInLabels(stream: string): string {
  if (isLabelText(stream, LABEL_CHARACTERS - LONGEST_KIND)) return stream;
  return hexOf(digestOf(stream)).slice(0, 12);
}

function isLabelText(text: string, longest: number): boolean {
  return text.length <= longest && LABEL_TEXT.test(text);
}

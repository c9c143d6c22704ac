import { formatBytes } from '../../../platform/sizes.ts';
import type { Assessment } from '../../assess/assess.ts';
import type { Memory } from '../../state/memory.ts';
import { briefNames, briefTitle } from '../brief/brief-name.ts';

/**
 * The STATUS line while layers are copied from a medium to the node's own disk. Undefined while
 * none is copied.
 */
export function copyLine({ copyingBytes }: Memory, { bundles }: Assessment): string | undefined {
  if (copyingBytes === undefined) return undefined;
  const carried = bundles.filter(({ blobMedia }) => blobMedia.length > 0);
  const entry = carried.findLast(({ hold }) => hold === 'media') ?? carried.at(-1);
  const what = entry === undefined ? 'layers' : `layers of ${briefTitle(entry.bundle.payload)}`;
  const from = entry?.blobMedia.length ? ` from ${briefNames(entry.blobMedia, '', ' and ')}` : '';
  return `Copying ${what}${from} to this node, ${formatBytes(copyingBytes)} left.${entry?.isOnPeersOnly === true ? '' : ' Leave the stick plugged in.'}`;
}

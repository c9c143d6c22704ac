import type { Trust } from '../../../src/bundle/keys/trust.ts';
import type { BundleLayout } from '../../../src/bundle/read/find-bundles.ts';
import { judgeBundles } from '../../../src/bundle/verify/judge-bundles.ts';
import type { FoundBundle } from '../../../src/domain/model/medium.ts';
import { openFolderMedium } from '../../../src/media/media-provider.ts';

/** Finds and judges the bundles of a medium in the directory `root`, as the daemon does. */
export async function readBundles(
  root: string,
  {
    trust,
    layout,
    known = [],
  }: { readonly trust: Trust; readonly layout: BundleLayout; readonly known?: readonly FoundBundle[] },
  signal: AbortSignal,
): Promise<FoundBundle[]> {
  return judgeBundles(await openFolderMedium(root, layout).findBundles(signal), { trust, known }, signal);
}

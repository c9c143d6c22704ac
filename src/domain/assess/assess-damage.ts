import { baseNeededBy } from '../model/bundle.ts';
import type { BundleId } from '../model/digest.ts';
import { type ImageReason, labelOf } from '../model/reason.ts';
import type { DamagedImage, DamageNext } from '../release/content/damaged-images.ts';
import type { StoredBundle } from '../state/state.ts';

/** What a person can do something about comes first. */
const ORDER: readonly DamageNext['kind'][] = ['plug-in', 'give-up', 'in-use', 'cancelled', 'shared', 'look', 'heal'];

/** What each release says about damaged images that the runtime lists. */
export function damageReasons(damaged: readonly DamagedImage[]): ReadonlyMap<BundleId, ImageReason> {
  const byBundle = new Map<BundleId, { readonly bundle: StoredBundle; readonly images: DamagedImage[] }>();
  for (const image of damaged) {
    if (!image.isPresent) continue;
    for (const bundle of image.bundles) {
      const entry = byBundle.get(bundle.bundleId) ?? { bundle, images: [] };
      entry.images.push(image);
      byBundle.set(bundle.bundleId, entry);
    }
  }
  return new Map(
    [...byBundle].flatMap(([bundleId, { bundle, images }]) => {
      const reason = reasonOf(bundle, images);
      return reason === undefined ? [] : [[bundleId, reason] as const];
    }),
  );
}

function reasonOf(bundle: StoredBundle, images: readonly DamagedImage[]): ImageReason | undefined {
  const [first] = [...images].sort((a, b) => ORDER.indexOf(a.next.kind) - ORDER.indexOf(b.next.kind));
  const [fault] = first?.faults ?? [];
  if (first === undefined || fault === undefined) return undefined;
  const { reference } = first.image;
  const base = baseNeededBy(first.image, bundle);
  const data = {
    damaged: images.length,
    total: bundle.contents.images.length,
    reference,
    fault,
    next: first.next.kind,
    ...(base !== undefined && { base }),
  };
  return { code: 'engine/image-damaged', data: { bundle: labelOf(bundle.payload), ...data } };
}

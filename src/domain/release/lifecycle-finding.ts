import type { BundleId } from '../model/digest.ts';
import type { Removal } from '../state/effect.ts';
import type { Soak } from '../state/release-record.ts';

/**
 * What a look at a release after its activation, or at one that runs without it, concludes.
 * `decide/` makes effects of it.
 */
export type LifecycleFinding =
  /** It has the very same images as `twin`, a release that ran: nothing could tell them apart. */
  | {
      readonly kind: 'same-images';
      readonly bundleId: BundleId;
      readonly twin: BundleId;
      readonly isTwinProtected: boolean;
    }
  /** Its soak clock has changed. */
  | { readonly kind: 'clock-changed'; readonly bundleId: BundleId; readonly soak: Soak }
  /** Containers of its present activation run for the first time. */
  | { readonly kind: 'runs'; readonly bundleId: BundleId }
  /** It has run for the soak time. */
  | { readonly kind: 'soaked'; readonly bundleId: BundleId }
  /** Nothing told for long enough whether it works. `soak`: its clock, which is to be kept. */
  | { readonly kind: 'unseen-for-long'; readonly bundleId: BundleId; readonly soak: Soak }
  /** `to` runs again in its place. */
  | { readonly kind: 'went-back'; readonly bundleId: BundleId; readonly to: BundleId }
  /** It runs by these components, though it was never activated. */
  | { readonly kind: 'runs-unasked'; readonly bundleId: BundleId; readonly components: readonly string[] }
  /** It is kept no longer; `roomFor` names the release that needs its space, if that is why. */
  | { readonly kind: 'spare'; readonly bundleId: BundleId; readonly roomFor?: BundleId }
  /** It was not complete for `retention.incomplete`. */
  | { readonly kind: 'incomplete'; readonly bundleId: BundleId }
  /** Images of a retired release, and tags of images that stay, that nothing needs. */
  | {
      readonly kind: 'removable';
      readonly bundleId: BundleId;
      readonly images: readonly Removal[];
      /** Default none. */
      readonly tags?: readonly string[];
    };

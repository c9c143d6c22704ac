import type { BundleId } from '../model/digest.ts';
import type { Removal } from '../state/effect.ts';
import type { Soak } from '../state/release-record.ts';

/** What a round concludes about a release after its activation, or that runs without it. */
export type LifecycleFinding =
  /** It has the same images as `twin`, a release that ran: nothing distinguishes them. */
  | {
      readonly kind: 'same-images';
      readonly bundleId: BundleId;
      readonly twin: BundleId;
      readonly isTwinProtected: boolean;
    }
  | { readonly kind: 'clock-changed'; readonly bundleId: BundleId; readonly soak: Soak }
  /** Containers of its present activation run for the first time. */
  | { readonly kind: 'runs'; readonly bundleId: BundleId }
  | { readonly kind: 'soaked'; readonly bundleId: BundleId }
  /** No evidence for long enough whether it works. */
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

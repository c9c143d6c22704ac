import type { BundleId } from '../model/digest.ts';
import type { Removal } from '../state/effect.ts';
import type { Soak } from '../state/release-record.ts';

/** A conclusion about a release after its activation, or that runs without it. */
export type LifecycleFinding =
  | {
      readonly kind: 'same-images';
      readonly bundleId: BundleId;
      readonly twin: BundleId;
      readonly isTwinProtected: boolean;
    }
  | { readonly kind: 'clock-changed'; readonly bundleId: BundleId; readonly soak: Soak }
  | { readonly kind: 'runs'; readonly bundleId: BundleId }
  | { readonly kind: 'soaked'; readonly bundleId: BundleId }
  | { readonly kind: 'unseen-for-long'; readonly bundleId: BundleId; readonly soak: Soak }
  | { readonly kind: 'went-back'; readonly bundleId: BundleId; readonly to: BundleId }
  | { readonly kind: 'runs-unasked'; readonly bundleId: BundleId; readonly components: readonly string[] }
  | { readonly kind: 'spare'; readonly bundleId: BundleId; readonly roomFor?: BundleId }
  | { readonly kind: 'incomplete'; readonly bundleId: BundleId }
  | {
      readonly kind: 'removable';
      readonly bundleId: BundleId;
      readonly images: readonly Removal[];
      readonly tags?: readonly string[];
    };

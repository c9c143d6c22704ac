import type { ImageUses } from '../domain/model/image.ts';

/** The manifests of static pods, which the kubelet runs without an API server. */
export interface StaticPodsPort {
  /**
   * The images that they ask for now. Files that can't be read are faults of the answer; a missing
   * folder is none. Throws only for an abort.
   */
  images(signal: AbortSignal): Promise<ImageUses>;
}

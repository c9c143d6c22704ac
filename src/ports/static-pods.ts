import type { ImageUses } from '../domain/model/image.ts';

/** The manifests of static pods, which the kubelet runs without an API server. */
export interface StaticPodsPort {
  /** Unreadable files are faults of the result. Throws only for an abort. */
  images(signal: AbortSignal): Promise<ImageUses>;
}

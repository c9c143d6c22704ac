import type { Digest } from '../../domain/model/digest.ts';
import type { RuntimeImage } from '../../domain/model/image.ts';
import { AppError } from '../../platform/app-error.ts';
import { forEachLimited } from '../../platform/async/concurrency.ts';
import type { CriClient } from '../cri/cri-client.ts';
import type { ListingClient } from '../cri/observe.ts';
import { isUnreachable } from '../cri/runtime-error.ts';
import type { ContentClient } from './content-client.ts';

const PARALLEL = 8;

/**
 * Knows which images containerd has unpacked. It also lists images whose layers have media types
 * that it does not know, and can't start them (docs/runtime-facts.md, fact 57). An image that was
 * seen unpacked is not examined again while it is listed.
 */
export class UnpackedImages {
  private readonly known = new Set<string>();

  constructor(private readonly content: Pick<ContentClient, 'isUnpacked'>) {}

  /** Its list says which images are not unpacked. */
  listedBy(cri: ListingClient): ListingClient {
    return {
      socketPath: cri.socketPath,
      status: (signal) => cri.status(signal),
      version: (signal) => cri.version(signal),
      imageFilesystemPath: (signal) => cri.imageFilesystemPath(signal),
      listImages: async (signal) => this.mark(await cri.listImages(signal), signal),
    };
  }

  /** @throws AppError `runtime/unreachable`; `runtime/cancelled` after an abort */
  private async mark(images: readonly RuntimeImage[], signal: AbortSignal): Promise<RuntimeImage[]> {
    const listed = new Set(images.map(({ imageId }) => imageId));
    for (const imageId of this.known) if (!listed.has(imageId)) this.known.delete(imageId);
    const lacking = new Set<string>();
    const unknown = images.filter(({ imageId }) => !this.known.has(imageId));
    await forEachLimited(unknown, PARALLEL, signal, async ({ imageId }, inner) => {
      const isUnpacked = await this.examine(imageId, inner);
      if (isUnpacked) this.known.add(imageId);
      else if (isUnpacked === false) lacking.add(imageId);
    });
    return images.map((image) => (lacking.has(image.imageId) ? { ...image, isUnpacked: false } : image));
  }

  /** Undefined means that containerd fails at this image: it must not hold up the others. */
  private async examine(imageId: string, signal: AbortSignal): Promise<boolean | undefined> {
    try {
      return await this.content.isUnpacked(imageId as Digest, signal);
    } catch (error) {
      if (signal.aborted || isUnreachable(error)) throw error;
      return undefined;
    }
  }

  /** @throws AppError `runtime/unfit-image` when it is listed and not unpacked */
  async require(reference: string, cri: Pick<CriClient, 'imageStatus'>, signal: AbortSignal): Promise<void> {
    const image = await cri.imageStatus(reference, signal);
    if (image === undefined || (await this.content.isUnpacked(image.imageId as Digest, signal))) return;
    const message = `containerd has pulled ${reference} and has not unpacked it, so that no container can start from it`;
    throw new AppError({ code: 'runtime/unfit-image', message, disposition: 'wait' });
  }
}

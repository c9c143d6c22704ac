import type { Digest } from '../../domain/model/digest.ts';
import type { RuntimeImage } from '../../domain/model/image.ts';
import { AppError } from '../../platform/app-error.ts';
import { forEachLimited } from '../../platform/async/concurrency.ts';
import type { CriClient } from '../cri/cri-client.ts';
import type { ListingClient } from '../cri/observe.ts';
import type { ContentClient } from './content-client.ts';

const PARALLEL = 8;

/**
 * Which images containerd has unpacked. It lists one whose layers have media types that it does not
 * know, and can't start it (docs/runtime-facts.md, fact 57). An image that was seen unpacked is not
 * examined again while it is listed.
 */
export class UnpackedImages {
  private known: ReadonlySet<string> = new Set();

  constructor(private readonly content: Pick<ContentClient, 'isUnpacked'>) {}

  /** Its list says which images are not unpacked. */
  listedBy(cri: CriClient): ListingClient {
    return {
      socketPath: cri.socketPath,
      status: (signal) => cri.status(signal),
      version: (signal) => cri.version(signal),
      imageFilesystemPath: (signal) => cri.imageFilesystemPath(signal),
      listImages: async (signal) => this.mark(await cri.listImages(signal), signal),
    };
  }

  /** @throws AppError with a `PullErrorCode` */
  private async mark(images: readonly RuntimeImage[], signal: AbortSignal): Promise<RuntimeImage[]> {
    const unpacked = new Set(images.flatMap(({ imageId }) => (this.known.has(imageId) ? [imageId] : [])));
    const unknown = images.filter(({ imageId }) => !unpacked.has(imageId));
    await forEachLimited(unknown, PARALLEL, signal, async ({ imageId }, inner) => {
      if (await this.content.isUnpacked(imageId as Digest, inner)) unpacked.add(imageId);
    });
    this.known = unpacked;
    return images.map((image) => (unpacked.has(image.imageId) ? image : { ...image, isUnpacked: false }));
  }

  /** @throws AppError `runtime/unfit-image` when it is listed and not unpacked */
  async require(reference: string, cri: Pick<CriClient, 'imageStatus'>, signal: AbortSignal): Promise<void> {
    const image = await cri.imageStatus(reference, signal);
    if (image === undefined || (await this.content.isUnpacked(image.imageId as Digest, signal))) return;
    const message = `containerd has pulled ${reference} and has not unpacked it, so that no container can start from it`;
    throw new AppError({ code: 'runtime/unfit-image', message, disposition: 'wait' });
  }
}

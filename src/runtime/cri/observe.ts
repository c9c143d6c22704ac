import { stat, statfs } from 'node:fs/promises';
import type {
  ImageFilesystem,
  LayerStorage,
  MirrorEffect,
  RuntimeImage,
  RuntimeObservation,
  StagingPlace,
} from '../../domain/model/image.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { withDeadline } from '../../platform/async/abort.ts';
import type { Clock } from '../../platform/clock.ts';
import type { CriClient } from './cri-client.ts';
import { type Call, callAgain } from './runtime-error.ts';
import type { UnitStop } from './unit-stop.ts';

export type Rendered = Pick<
  Extract<RuntimeObservation, { readonly kind: 'reachable' }>,
  'renderedPins' | 'foundPins' | 'arePinsUnread' | 'pinFault' | 'hiddenMirrors' | 'renderedMirrors' | 'layerStorage'
>;

export interface RuntimeTraits {
  /** For display until the runtime has reported a name. */
  readonly title: string;
  readonly layerStorage: LayerStorage;
  readonly mirrorsTakeEffect: MirrorEffect;
  /** Whether a pull of a pinned image removes its pin. Default false. */
  readonly arePinsLostByPulls?: boolean;
  /** Whether this error of `ListImages` means that the records of the storage are damaged. */
  readonly isStorageDamage?: (text: string) => boolean;
  /** Folder of blobs during a pull, if it is not the storage. */
  readonly stagingPath?: string;
}

export type ListingClient = Pick<CriClient, 'socketPath' | 'status' | 'version' | 'listImages' | 'imageFilesystemPath'>;

interface CriObserverOptions {
  readonly cri: ListingClient;
  readonly stop: Pick<UnitStop, 'unit'>;
  readonly traits: RuntimeTraits;
  /** Default 15 s. */
  readonly timeoutMs?: number | undefined;
  readonly clock: Clock;
  readonly rendered: (signal: AbortSignal) => Promise<Rendered>;
}

interface Remembered {
  readonly name?: string | undefined;
  readonly imagesPath?: string | undefined;
  readonly rendered?: Rendered | undefined;
}

const NOTHING_RENDERED: Rendered = { renderedPins: [], arePinsUnread: true, renderedMirrors: [] };

/**
 * Only `Status` decides whether the runtime is alive. A failed call is tried again. If it still
 * fails:
 * - `Status`: the runtime is `unreachable`;
 * - `ListImages`: the runtime is `unlisted`, because no decision is possible without its images;
 * - `Version`: the name is from the last observation, or says that the version is unknown;
 * - `ImageFsInfo`: the path is from the last observation, or unknown. CRI-O fails for a moment when
 *   a commit removes a file that it is about to count;
 * - pins and mirrors: they are from the last observation, or empty, so that they are written again.
 */
export class CriObserver {
  private last: Remembered = {};

  constructor(private readonly options: CriObserverOptions) {}

  /** Throws only for an abort. */
  async observe(signal: AbortSignal): Promise<RuntimeObservation> {
    const { cri, stop, traits, timeoutMs = 15_000, clock, rendered } = this.options;
    const stoppingUnit = stop.unit();
    // A stopping runtime may still answer, but accepts no pulls.
    if (stoppingUnit !== undefined) {
      this.last = {};
      return { kind: 'unreachable', reason: `${stoppingUnit} is being stopped`, stoppingUnit };
    }
    let isAlive = false;
    try {
      return await withDeadline('The container runtime', timeoutMs, signal, async (inner) => {
        const again = <T>(call: Call<T>) => callAgain(call, clock, inner);
        const pathOf = (one: AbortSignal) => cri.imageFilesystemPath(one);
        const [alive, name, images, path, ours] = await Promise.allSettled([
          again((one) => cri.status(one)).then(() => {
            isAlive = true;
          }),
          again((one) => cri.version(one)),
          again((one) => cri.listImages(one)),
          this.last.imagesPath === undefined ? again(pathOf) : pathOf(inner),
          again(rendered),
        ]);
        inner.throwIfAborted();
        if (alive.status === 'rejected') throw alive.reason;
        this.last = {
          name: foundBy(name) ?? this.name(),
          imagesPath: path.status === 'fulfilled' ? path.value : this.last.imagesPath,
          rendered: foundBy(ours) ?? this.last.rendered ?? NOTHING_RENDERED,
        };
        if (images.status === 'rejected') throw images.reason;
        return await reachable(images.value, this.last, traits);
      });
    } catch (error) {
      signal.throwIfAborted();
      if (isAlive) {
        const reason = reasonOf(error);
        const isDamaged = traits.isStorageDamage?.(reason) === true;
        return { kind: 'unlisted', name: this.name(), reason, ...(isDamaged && { isStorageDamaged: true }) };
      }
      this.last = {};
      const isAway = error instanceof AppError && error.code === 'runtime/unreachable';
      return { kind: 'unreachable', reason: isAway ? `nothing answers on ${cri.socketPath}` : reasonOf(error) };
    }
  }

  private name(): string {
    return this.last.name ?? `${this.options.traits.title} (version unknown)`;
  }
}

function foundBy<T>(settled: PromiseSettledResult<T>): T | undefined {
  return settled.status === 'fulfilled' ? settled.value : undefined;
}

async function reachable(
  images: readonly RuntimeImage[],
  { name = '', imagesPath, rendered = NOTHING_RENDERED }: Remembered,
  { layerStorage, mirrorsTakeEffect, stagingPath, arePinsLostByPulls = false }: RuntimeTraits,
): Promise<RuntimeObservation> {
  const filesystem = imagesPath === undefined ? undefined : await filesystemAt(imagesPath);
  const staging = await stagingPlace(filesystem, stagingPath);
  const facts = { layerStorage, mirrorsTakeEffect, staging, arePinsLostByPulls };
  return { kind: 'reachable', name, images, filesystem, ...facts, ...rendered };
}

/** Sizes are in bytes. Returns undefined when they can't be read. */
export async function filesystemAt(path: string): Promise<ImageFilesystem | undefined> {
  try {
    const { bsize, blocks, bavail, files, ffree } = await statfs(path);
    const sizes = { path, totalBytes: bsize * blocks, freeBytes: bsize * bavail };
    return files === 0 ? sizes : { ...sizes, inodes: { total: files, free: ffree } };
  } catch {
    return undefined; // the path of a runtime may be invisible to this process; then its space is unknown
  }
}

/** Returns undefined when it is not known whether `path` has a separate filesystem. */
async function stagingPlace(
  images: ImageFilesystem | undefined,
  path: string | undefined,
): Promise<StagingPlace | undefined> {
  if (images === undefined || path === undefined) return undefined;
  try {
    const [ofImages, other] = await Promise.all([stat(images.path), stat(path)]);
    return ofImages.dev === other.dev ? 'with-images' : await filesystemAt(path);
  } catch {
    return undefined;
  }
}

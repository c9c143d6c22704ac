import { type Clock, systemClock } from '../../platform/clock.ts';
import type { UnitControl } from '../../ports/node.ts';
import { PathRecord } from '../config/config-file.ts';
import type { MirrorAddress } from '../config/toml-text.ts';
import { createContainers, type PauseImage } from '../cri/containers.ts';
import { CriClient } from '../cri/cri-client.ts';
import { CriObserver, type RuntimeTraits } from '../cri/observe.ts';
import { UnitStop } from '../cri/unit-stop.ts';
import type { RuntimeAdapter } from '../runtime-adapter.ts';
import { openContentCheck } from './check-content.ts';
import { reportedRoots, sandboxImage } from './containerd-config.ts';
import { ContentClient } from './content-client.ts';
import { addTag, ImagesClient, labelChanges, labelledPins, MARK_LABEL, markedPins } from './images-client.ts';
import {
  CONTAINERD_CONFIG_FILE,
  configPathMissing,
  FOLDERS_CLEARED_ANYWAY,
  findMirrorPlaces,
  MirrorFolders,
} from './mirror-folders.ts';
import { UnpackedImages } from './unpacked-images.ts';

export interface ContainerdRuntimeOptions {
  /** Default `/run/containerd/containerd.sock`. */
  readonly socketPath?: string;
  /** Default `containerd.service`. */
  readonly unitNames?: readonly string[];
  readonly units: UnitControl;
  readonly mirror: MirrorAddress;
  /** Default: the reported `config_path`, or `/etc/containerd/certs.d`. */
  readonly certsDirectory?: string;
  /** It is read if `config_path` is not reported. Default `/etc/containerd/config.toml`. */
  readonly configFile?: string;
  readonly foldersFile: string;
  /** Default 15 s. */
  readonly observeTimeoutMs?: number;
  readonly protoRoot?: string;
  readonly clock?: Clock;
}

/**
 * containerd keeps blobs and their unpacked files (docs/runtime-facts.md, fact 22), and reads
 * `hosts.toml` at each pull (docs/runtime-facts.md, fact 21).
 */
const TRAITS: RuntimeTraits = {
  title: 'containerd',
  layerStorage: 'both',
  mirrorsTakeEffect: 'next-pull',
  arePinsLostByPulls: true,
};

/** The limit for the label after a pull, since the signal of the pull may have aborted. */
const REPIN_MS = 2_000;

/**
 * Mirrors are `hosts.toml` files, pins are labels, and images are pulled over CRI. No reload is
 * needed, so `force` is ignored. A pinned image is labelled right after its pull, before a garbage
 * collection can remove it.
 */
export function createContainerdRuntime(options: ContainerdRuntimeOptions): RuntimeAdapter {
  const { socketPath = '/run/containerd/containerd.sock', unitNames = ['containerd.service'], protoRoot } = options;
  const cri = new CriClient({ socketPath, protoRoot });
  const images = new ImagesClient({ socketPath, protoRoot });
  const content = new ContentClient({ socketPath, protoRoot });
  const unpacked = new UnpackedImages(content);
  const clock = options.clock ?? systemClock;
  const stop = new UnitStop(unitNames, options.units, clock);
  let pinned: ReadonlySet<string> = new Set();
  let labelled: ReadonlySet<string> = new Set();
  const pinPulled = async (reference: string): Promise<void> => {
    if (!pinned.has(reference) && !labelled.has(reference)) return;
    const signal = AbortSignal.timeout(REPIN_MS);
    const record = await images.get(reference, signal);
    for (const change of labelChanges(record === undefined ? [] : [record], [reference]))
      await images.changeLabels(change, signal);
  };
  const folders = new MirrorFolders(new PathRecord(options.foldersFile, FOLDERS_CLEARED_ANYWAY), options.mirror);
  const { certsDirectory, configFile } = options;
  const places = (signal: AbortSignal) => findMirrorPlaces(cri, { certsDirectory, configFile }, signal);
  const observer = new CriObserver({
    cri: unpacked.listedBy(cri),
    stop,
    traits: TRAITS,
    timeoutMs: options.observeTimeoutMs,
    clock,
    rendered: async (signal) => {
      const marked = await images.list(signal, MARK_LABEL);
      const renderedPins = labelledPins(marked);
      labelled = new Set(renderedPins);
      const renderedMirrors = await folders.rendered(await places(signal), signal);
      return { renderedPins, foundPins: markedPins(marked), renderedMirrors };
    },
  });
  return {
    ...createContainers(cri, pauseImageOf(cri, options)),
    storagePaths: (signal) => storagePathsOf(cri, signal),
    close: () => [cri, images, content].forEach((each) => void each.close()),
    onChange: (listener) => stop.watch(listener),
    observe: (signal) => observer.observe(signal),
    applyPins: async (references, _options, signal) => {
      pinned = new Set(references);
      labelled = pinned;
      for (const change of labelChanges(await images.list(signal), references))
        await images.changeLabels(change, signal);
    },
    applyMirrors: async (mirrors, signal) => {
      const found = await places(signal);
      const repositories = mirrors.map(({ repository }) => repository);
      await folders.apply(found, found.length === 0 ? [] : repositories, signal);
      if (found.length === 0 && mirrors.length > 0) throw configPathMissing();
    },
    pull: async (reference, signal) => {
      try {
        await stop.guard((inner) => cri.pullImage(reference, inner), signal);
        await unpacked.require(reference, cri, signal);
      } finally {
        // An aborted pull may have removed the label too. If this fails, the next round sets it.
        await pinPulled(reference).catch(() => undefined);
      }
    },
    image: (name, signal) => cri.imageStatus(name, signal),
    addTag: (tag, reference, signal) => addTag({ cri, images, clock }, tag, reference, signal),
    removeTag: (tag, signal) => images.remove(tag, signal),
    openContentCheck: () => openContentCheck({ cri, content, clock }),
    storedBlobs: content,
    forgetContent: (digests, signal) => content.forget(digests, signal),
  };
}

/** The snapshotter's, and the root with the blobs. */
async function storagePathsOf(cri: CriClient, signal: AbortSignal): Promise<readonly string[]> {
  return [...(await cri.storagePaths(signal)), ...reportedRoots(await cri.statusInfo(signal))];
}

function pauseImageOf(cri: CriClient, { certsDirectory, configFile }: ContainerdRuntimeOptions): PauseImage {
  // A distribution with a certs directory has another configuration file, too.
  const file = configFile ?? (certsDirectory === undefined ? CONTAINERD_CONFIG_FILE : undefined);
  return {
    setting: 'sandbox_image of containerd',
    read: async (signal) => sandboxImage(await cri.statusInfo(signal), file, signal),
  };
}

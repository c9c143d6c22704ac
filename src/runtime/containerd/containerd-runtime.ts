import { type Clock, systemClock } from '../../platform/clock.ts';
import type { UnitControl } from '../../ports/node.ts';
import type { MirrorAddress } from '../config/mirror-address.ts';
import { createContainers } from '../cri/containers.ts';
import { createCriClient } from '../cri/cri-client.ts';
import { createCriObserver, type RuntimeTraits } from '../cri/observe.ts';
import { configError } from '../cri/runtime-error.ts';
import { createUnitStop } from '../cri/unit-stop.ts';
import { createListeners } from '../listeners.ts';
import type { RuntimeAdapter } from '../runtime-adapter.ts';
import { createHostsDirectory, type HostsDirectory } from './hosts-directory.ts';
import { createImagesClient } from './images-client.ts';
import { labelChanges, labelledPins, MARK_LABEL, markedPins } from './pin-label.ts';
import { registryConfigPath } from './registry-config-path.ts';

/** What the containerd adapter is made of. */
export interface ContainerdRuntimeOptions {
  /** Default `/run/containerd/containerd.sock`. */
  readonly socketPath?: string;
  /** Units that run it; default `containerd.service` alone. */
  readonly unitNames?: readonly string[];
  readonly units: UnitControl;
  readonly mirror: MirrorAddress;
  /**
   * Default: what containerd says its `config_path` is, or `/etc/containerd/certs.d` when it
   * doesn't say.
   */
  readonly certsDirectory?: string;
  /** Deadline of an observation, default 15 s. */
  readonly observeTimeoutMs?: number;
  readonly protoRoot?: string;
  /** Default: the machine's own. */
  readonly clock?: Clock;
}

/**
 * Blobs are kept beside what was unpacked of them (docs/runtime-facts.md, fact 22); `hosts.toml` is
 * read at each pull (docs/runtime-facts.md, fact 21).
 */
const TRAITS: RuntimeTraits = { title: 'containerd', layerStorage: 'both', mirrorsTakeEffect: 'at-once' };
const DEFAULT_CERTS_DIRECTORY = '/etc/containerd/certs.d';

/**
 * containerd: mirrors by `hosts.toml`, read at each pull; pins by label; images over CRI. It needs
 * no reload, so `force` means nothing. What is to be pinned is labelled as soon as it is pulled, so
 * that no garbage collection comes in between and no round has to ask for it.
 */
export function createContainerdRuntime(options: ContainerdRuntimeOptions): RuntimeAdapter {
  const { socketPath = '/run/containerd/containerd.sock', unitNames = ['containerd.service'], protoRoot } = options;
  const client = { socketPath, ...(protoRoot && { protoRoot }) };
  const cri = createCriClient(client);
  const images = createImagesClient(client);
  const clock = options.clock ?? systemClock;
  const stop = createUnitStop(unitNames, { units: options.units, clock });
  const listeners = createListeners(stop.watch);
  let pinned: ReadonlySet<string> = new Set();
  const pinPulled = async (reference: string, signal: AbortSignal): Promise<void> => {
    if (!pinned.has(reference)) return;
    const record = await images.get(reference, signal);
    for (const change of labelChanges(record === undefined ? [] : [record], [reference]))
      await images.changeLabels(change, signal);
  };
  const hosts = async (signal: AbortSignal): Promise<HostsDirectory | undefined> => {
    const configured = registryConfigPath(await cri.statusInfo(signal));
    if (configured.kind === 'unset') return undefined;
    const directory = configured.kind === 'set' ? configured.directory : DEFAULT_CERTS_DIRECTORY;
    return createHostsDirectory(options.certsDirectory ?? directory, options.mirror);
  };
  return {
    ...createContainers(cri),
    close: () => {
      cri.close();
      images.close();
    },
    onChange: listeners.add,
    observe: createCriObserver({
      cri,
      stop,
      traits: TRAITS,
      timeoutMs: options.observeTimeoutMs ?? 15_000,
      clock,
      rendered: async (signal) => {
        const marked = await images.list(signal, MARK_LABEL);
        const renderedMirrors = (await (await hosts(signal))?.rendered()) ?? [];
        return { renderedPins: labelledPins(marked), foundPins: markedPins(marked), renderedMirrors };
      },
    }),
    applyPins: async (references, _options, signal) => {
      pinned = new Set(references);
      for (const change of labelChanges(await images.list(signal), references))
        await images.changeLabels(change, signal);
    },
    applyMirrors: async (mirrors, signal) => {
      const directory = await hosts(signal);
      if (directory === undefined && mirrors.length > 0) throw configPathMissing();
      await directory?.apply(mirrors.map(({ repository }) => repository));
    },
    pull: async (reference, signal) => {
      await stop.guard((inner) => cri.pullImage(reference, inner), signal);
      // The image is there: a label that could not be set is missed by the next observation, and
      // asked for then.
      await pinPulled(reference, signal).catch(() => signal.throwIfAborted());
    },
    image: cri.imageStatus,
    removeTag: (tag, signal) => images.remove(tag, signal),
  };
}

function configPathMissing() {
  return configError(
    'containerd reads no mirrors: its configuration sets no config_path. Add to /etc/containerd/config.toml ' +
      `[plugins."io.containerd.grpc.v1.cri".registry] config_path = "${DEFAULT_CERTS_DIRECTORY}" and restart containerd`,
  );
}

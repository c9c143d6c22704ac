import { reasonOf } from '../../platform/app-error.ts';
import { withDeadline } from '../../platform/async/abort.ts';
import { type Clock, systemClock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { together, type Unsubscribe } from '../../platform/subscription.ts';
import type { UnitControl } from '../../ports/node.ts';
import type { MirrorsPort, PinsPort } from '../../ports/runtime.ts';
import { watchConfig } from '../config/config-watch.ts';
import type { MirrorAddress } from '../config/toml-text.ts';
import { createContainers } from '../cri/containers.ts';
import { CriClient } from '../cri/cri-client.ts';
import { CriObserver, type Rendered, type RuntimeTraits } from '../cri/observe.ts';
import { UnitStop } from '../cri/unit-stop.ts';
import type { RuntimeAdapter } from '../runtime-adapter.ts';
import {
  CRIO_PATHS,
  type CrioPaths,
  refuseShadowing,
  runningPauseImage,
  runningRoots,
  SHADOWED_PINS,
} from './crio-config.ts';
import { type CrioFiles, createCrioFiles } from './crio-files.ts';
import { createReload, type Reload } from './reload.ts';
import { openContentCheck } from './storage/check-content.ts';
import { createStoredDocuments } from './storage/stored-documents.ts';

export interface CrioRuntimeOptions {
  /** Default `/var/run/crio/crio.sock`. */
  readonly socketPath?: string;
  /** Default `crio.service`. */
  readonly unit?: string;
  readonly units: UnitControl;
  readonly mirror: MirrorAddress;
  readonly log: Log;
  /** Paths that differ from {@link CRIO_PATHS}. */
  readonly paths?: Partial<CrioPaths>;
  /** Default 15 s. */
  readonly observeTimeoutMs?: number;
  /** Default 30 s. systemd queues a reload behind a start job, which may never end. */
  readonly reloadTimeoutMs?: number;
  readonly protoRoot?: string;
  readonly clock?: Clock;
}

/**
 * CRI-O unpacks layers from blobs in /var/tmp and keeps these until the image is stored
 * (docs/runtime-facts.md, fact 18). Mirrors take effect after a reload (docs/runtime-facts.md, fact
 * 5).
 */
const TRAITS: RuntimeTraits = {
  title: 'CRI-O',
  layerStorage: 'unpacked',
  stagingPath: '/var/tmp',
  mirrorsTakeEffect: 'late',
  // containers/storage, types/errors.go: ErrLayerUnknown, ErrImageUnknown, ErrParentUnknown.
  isStorageDamage: (text) => /\b(layer|parent of layer|image) not known\b/.test(text),
};

/**
 * CRI-O: pins and mirrors by drop-ins, images over CRI. INVARIANTS: a drop-in is complete on the
 * disk before the reload is requested. A failed reload is repeated with the next call, even if no
 * byte changes then, and by the next daemon. A successful reload does not prove that pins are in
 * effect; only `observe` does (docs/runtime-facts.md, fact 5).
 */
export function createCrioRuntime(options: CrioRuntimeOptions): RuntimeAdapter {
  const { socketPath = '/var/run/crio/crio.sock', unit = 'crio.service', units, protoRoot } = options;
  const { reloadTimeoutMs = 30_000, clock = systemClock } = options;
  const paths = { ...CRIO_PATHS, ...options.paths };
  const cri = new CriClient({ socketPath, protoRoot });
  const stop = new UnitStop([unit], units, clock);
  const reload = createReload({
    markerPath: paths.reloadMarker,
    isStopping: () => stop.unit() !== undefined,
    reload: (signal) =>
      withDeadline(`The reload of ${unit}`, reloadTimeoutMs, signal, (inner) => units.reloadUnit(unit, inner)),
    isWhole: (signal) => files.isReloadWhole(signal),
  });
  const files = createCrioFiles(paths, options.mirror, reload.change);
  const observer = new CriObserver({
    cri,
    stop,
    traits: TRAITS,
    timeoutMs: options.observeTimeoutMs,
    clock,
    rendered: (signal) => renderedBy(files, paths, signal),
  });
  return {
    ...createContainers(cri, {
      setting: 'pause_image of CRI-O',
      read: (signal) => runningPauseImage(socketPath, signal),
    }),
    ...createDropInPorts(files, reload),
    close: () => cri.close(),
    storagePaths: async (signal) => [...(await cri.storagePaths(signal)), ...(await runningRoots(socketPath, signal))],
    onChange: (listener) => watchChanges(paths, stop, options.log, listener),
    observe: (signal) => observer.observe(signal),
    pull: async (reference, signal) => {
      await stop.guard((inner) => cri.pullImage(reference, inner), signal);
    },
    image: (name, signal) => cri.imageStatus(name, signal),
    addTag: async () => false, // CRI gives a name with a pull only
    removeTag: (tag, signal) => cri.removeImage(tag, signal),
    openContentCheck: () => openContentCheck({ cri, clock }),
    forgetContent: async () => undefined, // it keeps no blobs
    storedDocuments: createStoredDocuments({ cri, clock }),
  };
}

/** Files that stickpin writes don't count. */
function watchChanges(paths: CrioPaths, stop: UnitStop, log: Log, notify: () => void): Unsubscribe {
  const watched = [paths.configPath, paths.configDirectory, paths.registriesPath, paths.registriesDirectory];
  const ownPaths = [paths.pinsLink, paths.mirrorsLink];
  return together([stop.watch(notify), watchConfig(watched, { ownPaths, log }, notify)]);
}

/** INVARIANT: the reload that pins wait for is made even if the mirrors can't be written. */
function createDropInPorts(files: CrioFiles, reload: Reload): PinsPort & MirrorsPort {
  return {
    applyPins: async (references, { force, mirrorsFollow = false }, signal) => {
      const shadowing = await files.writePins(references, signal);
      if (force) reload.owe();
      if (!mirrorsFollow) await reload.run(signal);
      if (references.length > 0) await files.refuseHalfReload(signal);
      refuseShadowing(shadowing, SHADOWED_PINS);
    },
    applyMirrors: async (mirrors, signal) => {
      const repositories = mirrors.map(({ repository }) => repository);
      try {
        await files.writeMirrors(repositories, signal);
      } catch (error) {
        if (!signal.aborted) await reload.run(signal);
        throw error;
      }
      await reload.run(signal);
    },
  };
}

async function renderedBy(files: CrioFiles, paths: CrioPaths, signal: AbortSignal): Promise<Rendered> {
  const { rendered, fault } = await inspectPins(files, paths, signal);
  const found = await files.foundPins(signal).catch(() => {
    signal.throwIfAborted();
    return undefined; // what can't be read is reported as a fault
  });
  const renderedMirrors = await files.renderedMirrors(signal);
  const hiddenMirrors = await files.hiddenMirrors(signal);
  return {
    renderedPins: rendered,
    foundPins: found ?? [],
    arePinsUnread: found === undefined,
    pinFault: fault,
    renderedMirrors,
    hiddenMirrors,
  };
}

/** Files that can't be read don't make the runtime unreachable. The pins count as not rendered. */
async function inspectPins(files: CrioFiles, { pinsFile }: CrioPaths, signal: AbortSignal) {
  try {
    return await files.inspectPins(signal);
  } catch (error) {
    signal.throwIfAborted();
    const message = `It can't be seen whether the pins in ${pinsFile} hold: ${reasonOf(error)}. Make the files of CRI-O's configuration readable for the service`;
    return { rendered: [], fault: { code: 'runtime/config', message } };
  }
}

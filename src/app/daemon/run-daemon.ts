import type { StatusReport } from '../../domain/report/status-schema.ts';
import type { Settings } from '../../domain/settings/settings.ts';
import type { Effect } from '../../domain/state/effect.ts';
import type { Engine } from '../../engine/loop/engine.ts';
import type { Media } from '../../media/media.ts';
import type { BundleAccess, MediaProvider } from '../../media/media-provider.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { messageIds } from '../../platform/message-ids.ts';
import type { FleetPort } from '../../ports/fleet.ts';
import type { DiskSync, HookRunner, NodePort, ServiceNotifier, StaticPodsPort } from '../../ports/node.ts';
import type { RuntimeAdapter } from '../../runtime/runtime-adapter.ts';
import type { RuntimeChoice } from '../../runtime/runtimes.ts';

interface RunningParts {
  readonly engine: Engine;
  readonly media: Media;
  readonly runtime: RuntimeAdapter;
  readonly authority: string;
  readonly options: Pick<DaemonOptions, 'log' | 'notifier' | 'keepsMirrors'>;
}

/**
 * Runs from `READY=1` to the removal of the mirrors. INVARIANT: `STOPPING=1` is sent before the
 * first await of the stop.
 */
export async function runDaemon(
  { engine, media, runtime, authority, options }: RunningParts,
  signal: AbortSignal,
): Promise<void> {
  const { log, notifier } = options;
  signal.addEventListener('abort', () => notifier.stopping(), { once: true });
  await media.start(signal);
  notifier.ready();
  log.info({ messageId: messageIds.daemonStarted }, `stickpin started; its registry listens on ${authority}`);
  await engine.run(signal);
  log.info(
    { messageId: messageIds.daemonStopping },
    'stickpin stops; pins stay, and what was not loaded is loaded after the next start',
  );
  if (options.keepsMirrors !== true) await withdrawMirrors(runtime, log);
}

/**
 * Removes the mirrors, because our registry stops with the daemon. Otherwise the runtime would ask
 * a closed port first.
 */
async function withdrawMirrors(runtime: RuntimeAdapter, log: Log): Promise<void> {
  try {
    await runtime.applyMirrors([], AbortSignal.timeout(WITHDRAW_MS));
  } catch (error) {
    if (error instanceof AppError && error.code === 'runtime/unreachable') return;
    log.warn({ err: error }, `The mirrors could not be taken away: ${reasonOf(error)}; the next start does it`);
  }
}

const WITHDRAW_MS = 5_000;

export interface DaemonOptions {
  readonly settings: Settings;
  readonly log: Log;
  readonly clock: Clock;
  readonly node: NodePort;
  readonly notifier: ServiceNotifier;
  readonly units: RuntimeChoice['units'];
  /** What `agetty --reload` touches. Without it login prompts show nothing. */
  readonly agettyReload?: string;
  /** Runs the units of hooks. Without it a hook fails that the settings name. */
  readonly hookRunner?: HookRunner;
  /** Default: nothing that is loaded outlives the run, as in a rehearsal. */
  readonly disk?: DiskSync;
  /** The manifests of static pods. Default: there are none. */
  readonly staticPods?: StaticPodsPort;
  /** Default: nothing is known of other nodes. */
  readonly fleet?: FleetPort;
  /** Providers of media other than the directories of the settings: the devices of this machine. */
  readonly providers: readonly MediaProvider[];
  /** An inherited socket for the registry. Default: it opens one. */
  readonly registryFd?: number | undefined;
  readonly onStatus?: (report: StatusReport) => void;
  /**
   * Whether mirrors stay when the daemon ends, since systemd decides about them afterwards
   * (`keep-mirrors`). Default false: they are removed.
   */
  readonly keepsMirrors?: boolean;
  /**
   * Whether the owner and mode of the folder of keys are checked. Default true. A rehearsal uses a
   * folder of the caller.
   */
  readonly keysAreGuarded?: boolean;
  /** Wraps each bundle on the media, to observe its reads. Default: no wrapper. */
  readonly watchBundle?: (bundle: BundleAccess) => BundleAccess;
  /**
   * The built file of `document-worker.ts`, which parses large documents in a thread. Without it
   * they are parsed in this thread, which blocks it.
   */
  readonly documentWorker?: URL;
  /** Wraps the runtime, to observe its calls. Default: no wrapper. */
  readonly watchRuntime?: (runtime: RuntimeAdapter) => RuntimeAdapter;
  /** Called after each effect of the engine. For a long effect: after its start. */
  readonly afterEffect?: (effect: Effect) => void;
}

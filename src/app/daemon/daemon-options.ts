import type { StatusReport } from '../../domain/report/report.ts';
import type { Settings } from '../../domain/settings/settings.ts';
import type { Effect } from '../../domain/state/effect.ts';
import type { BundleAccess, MediaProvider } from '../../media/provider/media-provider.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { HookRunner } from '../../ports/hooks.ts';
import type { NodePort, ServiceNotifier } from '../../ports/node.ts';
import type { RuntimeAdapter } from '../../runtime/runtime-adapter.ts';
import type { RuntimeChoice } from './runtime.ts';

/** What the daemon is given by whoever starts it: the service on a node, the demo, a test. */
export interface DaemonOptions {
  readonly settings: Settings;
  readonly log: Log;
  readonly clock: Clock;
  readonly node: NodePort;
  readonly notifier: ServiceNotifier;
  readonly units: RuntimeChoice['units'];
  /** Runs the units of hooks. Without it a hook fails that the settings name. */
  readonly hookRunner?: HookRunner;
  /** Media beside the directories of the settings: the devices of this machine. */
  readonly providers: readonly MediaProvider[];
  /** An inherited socket for the registry; without one it listens by itself. */
  readonly registryFd?: number | undefined;
  readonly onStatus?: (report: StatusReport) => void;
  /**
   * Whether it counts who else may write the folder of keys; default it does. A rehearsal takes a
   * folder that a person names.
   */
  readonly keysAreGuarded?: boolean;
  /**
   * Stands between the daemon and the bundles on its media, for who wants to watch; default nothing
   * does.
   */
  readonly watchBundle?: (bundle: BundleAccess) => BundleAccess;
  /**
   * The built file of `document-worker.ts`, in which large documents are parsed. Without one they
   * are parsed in this thread, which does nothing else then.
   */
  readonly documentWorker?: URL;
  /** Stands between the daemon and its runtime, for who wants to watch; default nothing does. */
  readonly watchRuntime?: (runtime: RuntimeAdapter) => RuntimeAdapter;
  /**
   * Called when the engine has done an effect; a long one has been started then. Default nothing
   * is.
   */
  readonly afterEffect?: (effect: Effect) => void;
}

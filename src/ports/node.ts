import type { BootTime } from '../domain/model/image.ts';
import type { NodeFacts } from '../domain/model/node-facts.ts';
import type { Unsubscribe } from '../platform/subscription.ts';

/** The systemd units of the runtimes, over D-Bus. */
export interface UnitControl {
  /**
   * Reloads a unit; resolves when the job is done. It does not wait for jobs of other units: with
   * `After=` the reload of a runtime would wait for the end of this service, which waits for the
   * reload. @throws AppError `host/unit` (`retry`)
   */
  reloadUnit(unit: string, signal: AbortSignal): Promise<void>;
  /**
   * Calls `listener` when the unit's `ActiveState` or main process changes, with the `ActiveState`
   * if known.
   */
  onUnitChange(unit: string, listener: (activeState?: string) => void): Unsubscribe;
}

/** Properties of the node. */
export interface NodePort {
  /** GOARCH: `amd64`, `arm64`, `ppc64le`, `s390x`. */
  readonly arch: string;
  /** Whether the clock is synchronised with an external source. False when that is not known. */
  clockSynchronised(signal: AbortSignal): Promise<boolean>;
  /** What rules about time are judged by. */
  facts(): NodeFacts;
  /** The time since the machine booted, including sleep. */
  boot(): BootTime;
}

/** Notifies systemd, see sd_notify(3). Without `NOTIFY_SOCKET` every call does nothing. */
export interface ServiceNotifier {
  ready(): void;
  /** Sends one line without a newline. An unchanged line is not sent again. */
  status(line: string): void;
  reloading(): void;
  stopping(): void;
}

import type { BootTime } from '../domain/model/image.ts';
import type { NodeFacts } from '../domain/model/node-facts.ts';
import type { Unsubscribe } from '../platform/subscription.ts';

/** The systemd units of the runtimes, over D-Bus. */
export interface UnitControl {
  /**
   * Resolves when the job is done. It does not wait for jobs of other units: with `After=` the
   * reload of a runtime would wait for the end of this service, which waits for the reload. @throws
   * AppError `host/unit` (`retry`)
   */
  reloadUnit(unit: string, signal: AbortSignal): Promise<void>;
  /** Calls `listener` when the `ActiveState` or the main process of the unit changes. */
  onUnitChange(unit: string, listener: (activeState?: string) => void): Unsubscribe;
}

export interface NodePort {
  /** GOARCH: `amd64`, `arm64`, `ppc64le`, `s390x`. */
  readonly arch: string;
  /** False when unknown. */
  clockSynchronised(signal: AbortSignal): Promise<boolean>;
  facts(): NodeFacts;
  /** The time since the machine booted, including sleep. */
  boot(): BootTime;
}

/** sd_notify(3). Without `NOTIFY_SOCKET` every call does nothing. */
export interface ServiceNotifier {
  ready(): void;
  /** One line without a newline. An unchanged line is not sent again. */
  status(line: string): void;
  reloading(): void;
  stopping(): void;
}

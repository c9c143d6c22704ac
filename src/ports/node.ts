import type { BootTime } from '../domain/model/runtime-container.ts';
import type { Unsubscribe } from '../platform/subscription.ts';

/** systemd units over D-Bus, as far as the runtime adapters need them. */
export interface UnitControl {
  /**
   * `ReloadUnit(name, "replace")`; resolves when the job is done. @throws AppError `host/unit`
   * (`retry`)
   */
  reloadUnit(unit: string, signal: AbortSignal): Promise<void>;
  /**
   * Calls `listener` when the unit's `ActiveState` or main process changed, with the `ActiveState`
   * where that is known.
   */
  onUnitChange(unit: string, listener: (activeState?: string) => void): Unsubscribe;
}

/** What the node is. */
export interface NodePort {
  /** GOARCH: `amd64`, `arm64`, `ppc64le`, `s390x`. */
  readonly arch: string;
  /**
   * Whether the clock is synchronised with an outside source; false when that can't be found out.
   */
  clockSynchronised(signal: AbortSignal): Promise<boolean>;
  /** The time since the machine booted, sleep included. */
  boot(): BootTime;
}

/** Tells systemd how it goes: sd_notify(3). Without `NOTIFY_SOCKET` every call does nothing. */
export interface ServiceNotifier {
  ready(): void;
  /** One line, no newline; an unchanged line is not sent again. */
  status(line: string): void;
  reloading(): void;
  stopping(): void;
}

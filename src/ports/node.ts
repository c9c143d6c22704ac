import type { BootTime, ImageUses } from '../domain/model/image.ts';
import type { NodeFacts } from '../domain/model/machine.ts';
import type { HookFailure, HookLedger } from '../domain/state/hook.ts';
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
  /** Returns false when it is unknown. */
  clockSynchronised(signal: AbortSignal): Promise<boolean>;
  facts(): NodeFacts;
  /** The time since the machine booted, including sleep. */
  boot(): BootTime;
}

/** sd_notify(3). If `NOTIFY_SOCKET` is not set, every call does nothing. */
export interface ServiceNotifier {
  ready(): void;
  /** Takes one line without a newline. An unchanged line is not sent again. */
  status(line: string): void;
  reloading(): void;
  stopping(): void;
}

export interface DiskSync {
  /**
   * Syncs the filesystems of these paths to the disk, or all of the machine when none is given.
   * That may take minutes.
   * @throws AppError `host/sync` (`retry`); the reason of `signal`
   */
  sync(paths: readonly string[], signal: AbortSignal): Promise<void>;
}

export interface HookRunner {
  /**
   * Writes the environment file of a unit, starts the unit and waits until its job is over, however
   * long that takes. A unit that starts already for the same environment is only awaited. An abort
   * ends the wait, and not the unit.
   *
   * @param unit a systemd service
   * @param environment the content of `/run/stickpin/hooks/<unit>.env`
   * @returns why it did not succeed
   * @throws AppError `host/unit`, `host/hook-file` (`retry`) when its end is unknown, or it could
   *   not   be started; whatever aborted `signal`
   */
  run(unit: string, environment: string, signal: AbortSignal): Promise<HookFailure | undefined>;
}

/** Records which hooks have run, so that none runs again after a restart. */
export interface HookStore {
  /** The ledger at the start of the daemon; empty when nothing could be read. No I/O. */
  load(): HookLedger;
  /** Durable when it resolves. @throws AppError `store/write`, `store/no-space` (`retry`) */
  save(ledger: HookLedger, signal: AbortSignal): Promise<void>;
}

/** The manifests of static pods, which the kubelet runs without an API server. */
export interface StaticPodsPort {
  /** Unreadable files are faults of the result. Throws only for an abort. */
  images(signal: AbortSignal): Promise<ImageUses>;
}

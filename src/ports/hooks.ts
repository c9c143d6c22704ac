import type { HookFailure, HookLedger } from '../domain/state/hook.ts';

/** Runs the units of hooks. */
export interface HookRunner {
  /**
   * Writes the environment file of a unit, starts the unit and waits until its job is over, however
   * long that takes. A unit that starts already for the very same environment is waited for, and
   * not started again. An abort ends the waiting, and not the unit.
   *
   * @param unit a systemd service
   * @param environment the whole content of `/run/stickpin/hooks/<unit>.env`
   * @returns why it did not succeed; undefined when it did
   * @throws AppError `host/unit`, `host/hook-file` (`retry`) when it is not known how it ended, or
   *   it could not be started; whatever aborted `signal`
   */
  run(unit: string, environment: string, signal: AbortSignal): Promise<HookFailure | undefined>;
}

/** Keeps which hooks have run, so that none runs again after a restart. */
export interface HookStore {
  /** As it was when the daemon started; empty when there was nothing that could be read. No I/O. */
  load(): HookLedger;
  /** Durable when it resolves. @throws AppError `store/write`, `store/no-space` (`retry`) */
  save(ledger: HookLedger, signal: AbortSignal): Promise<void>;
}

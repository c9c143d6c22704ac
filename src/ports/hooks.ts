import type { HookFailure, HookLedger } from '../domain/state/hook.ts';

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
  /** As of the start of the daemon; empty when nothing could be read. No I/O. */
  load(): HookLedger;
  /** Durable when it resolves. @throws AppError `store/write`, `store/no-space` (`retry`) */
  save(ledger: HookLedger, signal: AbortSignal): Promise<void>;
}

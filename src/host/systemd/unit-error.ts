import { BusErrorReply } from '../../dbus/message-bus.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { SYSTEMD } from './systemd-names.ts';

/** Codes of errors of the room host. */
export type HostErrorCode = 'host/unit' | 'host/no-such-unit';

/**
 * The error for a systemd job that ended without success, for example with `failed` or `timeout`
 * (JobRemoved).
 */
export function jobFailed(doing: string, unit: string, result: string): AppError<HostErrorCode> {
  return new AppError({
    code: 'host/unit',
    message: `${doing} ${unit} ended with "${result}"; see 'journalctl -u ${unit}'`,
    disposition: 'retry',
  });
}

/** The error for a process that is to be restarted and belongs to a scope or a slice. */
export function noService(unit: string): AppError<HostErrorCode> {
  return new AppError({
    code: 'host/unit',
    message: `This process belongs to ${unit}, which is no service that systemd could restart`,
    disposition: 'retry',
  });
}

/**
 * Converts an error reply of systemd to AppError `host/no-such-unit` or `host/unit`. Returns other
 * errors unchanged.
 */
export function asUnitError(doing: string, unit: string, error: unknown): unknown {
  if (!(error instanceof BusErrorReply)) return error;
  const code: HostErrorCode = error.errorName === `${SYSTEMD}.NoSuchUnit` ? 'host/no-such-unit' : 'host/unit';
  return new AppError({
    code,
    message: `${doing} ${unit} was refused by systemd: ${reasonOf(error)} (${error.errorName})`,
    disposition: 'retry',
    cause: error,
  });
}

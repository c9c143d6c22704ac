import { statSync } from 'node:fs';
import { join } from 'node:path';
import { BusErrorReply } from '../dbus/message-bus.ts';
import { AppError, reasonOf } from '../platform/app-error.ts';
import { codeOfErrorName } from './error-names.ts';

/** Codes of errors of the client. Errors of the daemon keep their codes. */
export type ApiErrorCode = 'api/unreachable' | 'api/starting' | 'api/denied' | 'api/failed';

const DBUS_ERROR = 'org.freedesktop.DBus.Error.';
const JOURNAL = "'journalctl -u stickpin' says what it does";

/** How the daemon is started, without full stop. A unit that is masked can't be started. */
export function startAdvice(etc = '/etc/systemd/system', run = '/run/systemd/system'): string {
  const isMasked = [etc, run].some((folder) => {
    try {
      // A link to /dev/null, or an empty file (systemd.unit(5)).
      const unit = statSync(join(folder, 'stickpin.service'));
      return !unit.isDirectory() && unit.size === 0;
    } catch {
      return false;
    }
  });
  return isMasked
    ? "Its unit is masked: run 'systemctl unmask stickpin', then 'systemctl start stickpin'"
    : "Start it with 'systemctl start stickpin'";
}

/** Whether an error says that no daemon runs, though the bus answers. */
export function isNotRunning(error: unknown): error is AppError {
  if (!(error instanceof AppError) || !(error.cause instanceof BusErrorReply)) return false;
  return error.code === 'api/unreachable' && NO_OWNER.has(error.cause.errorName);
}

const NO_OWNER: ReadonlySet<string> = new Set(['ServiceUnknown', 'NameHasNoOwner'].map((name) => DBUS_ERROR + name));

/** The error of a failed call, in words that need no knowledge of D-Bus. */
export function asApiError(error: unknown): AppError {
  if (error instanceof AppError && error.code === 'api/unreadable') return otherVersion(error);
  if (!(error instanceof BusErrorReply)) return busUnreachable(error);
  const code = codeOfErrorName(error.errorName);
  if (code !== undefined) return new AppError({ code, message: error.message, disposition: 'reject', cause: error });
  const name = error.errorName.startsWith(DBUS_ERROR) ? error.errorName.slice(DBUS_ERROR.length) : error.errorName;
  switch (name) {
    case 'ServiceUnknown':
    case 'NameHasNoOwner':
      return apiError(
        'api/unreachable',
        `The stickpin daemon is not running. ${startAdvice()}; 'journalctl -u stickpin' says why it ended`,
        error,
      );
    case 'NoReply':
    case 'Disconnected':
      return apiError(
        'api/unreachable',
        `The stickpin daemon ended before it answered. Try again in a moment; ${JOURNAL}`,
        error,
      );
    case 'Timeout':
    case 'TimedOut':
      return daemonTimeout(error);
    case 'AccessDenied':
    case 'InteractiveAuthorizationRequired':
      return apiError('api/denied', 'Only root may do this', error);
    case 'UnknownMethod':
    case 'UnknownInterface':
    case 'UnknownObject':
    case 'InvalidArgs':
    case 'UnknownProperty':
      return otherVersion(error);
    default:
      return apiError(
        'api/failed',
        `The stickpin daemon answered with an error: ${reasonOf(error)}; ${JOURNAL}`,
        error,
      );
  }
}

/** There is no bus, or the connection to it broke. */
export function busUnreachable(cause: unknown): AppError<ApiErrorCode> {
  const why = cause instanceof AppError && cause.code === 'platform/deadline' ? 'does not answer' : "can't be reached";
  return apiError(
    'api/unreachable',
    `The D-Bus system bus ${why}, so that the stickpin daemon can't be asked. Look at it with 'systemctl status dbus' and start it with 'systemctl start dbus'`,
    cause,
  );
}

/** The daemon runs but does not answer in time. */
export function daemonTimeout(cause: unknown): AppError<ApiErrorCode> {
  return apiError(
    'api/unreachable',
    `The stickpin daemon does not answer. Try again in a moment; if that does not help, restart it with 'systemctl restart stickpin'. ${JOURNAL}`,
    cause,
  );
}

/** The daemon has not finished its first round. */
export function daemonStarting(): AppError<ApiErrorCode> {
  return new AppError({
    code: 'api/starting',
    message: 'The daemon is still starting; try again in a moment',
    disposition: 'retry',
  });
}

/** The answer does not match the contract of this command. */
function otherVersion(cause: unknown): AppError<ApiErrorCode> {
  return apiError(
    'api/failed',
    "The daemon that runs is of another version than this command. Restart it with 'systemctl restart stickpin'",
    cause,
  );
}

function apiError(code: ApiErrorCode, message: string, cause: unknown): AppError<ApiErrorCode> {
  return new AppError({ code, message, disposition: code === 'api/unreachable' ? 'wait' : 'reject', cause });
}

import { AppError, type Disposition } from '../platform/app-error.ts';

/**
 * Codes of the fleet process.
 *
 * - `fleet/identity`: the kubelet's certificate, its key or its authorities can't be used;
 * - `fleet/refused`: the other end did not prove that it is a node of this cluster;
 * - `fleet/unreachable`: the other end does not answer, or not in time;
 * - `fleet/answer`: it answers with something that is no answer;
 * - `fleet/listen`: an address or socket can't be listened on.
 */
export type FleetErrorCode = 'fleet/identity' | 'fleet/refused' | 'fleet/unreachable' | 'fleet/answer' | 'fleet/listen';

/** An error of the fleet process. `message` says what, which, why, and what to do next. */
export function fleetError(
  code: FleetErrorCode,
  message: string,
  { disposition = 'retry', cause }: { readonly disposition?: Disposition; readonly cause?: unknown } = {},
): AppError<FleetErrorCode> {
  return new AppError({ code, message, disposition, cause });
}

import { connect } from 'node:net';
import { loadSettings, NODE_SOURCES } from '../../config/load-settings.ts';
import type { FleetView } from '../../domain/fleet/node-status.ts';
import { ownKeyLine } from '../../fleet/identity/node-keys.ts';
import { OffersClient } from '../../fleet/wire/client.ts';
import { WireConnection } from '../../fleet/wire/connection.ts';
import { fleetPaths } from '../../fleet/wire/documents.ts';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';

/** How long the fleet process may hold an answer, in milliseconds. */
const WAIT_MS = 30_000;

const FLEET_UNIT = 'stickpin-fleet.service';

function fleetOff(): AppError {
  return new AppError({
    code: 'fleet/off',
    message: "fleet.enabled is false on this node: set it, then run 'systemctl enable --now stickpin-fleet.service'",
    disposition: 'reject',
  });
}

function fleetError(error: unknown, unit: string): AppError {
  if (systemCodesOf(error).includes('EACCES')) {
    return new AppError({
      code: 'fleet/denied',
      message: 'Only root may ask the fleet process: run this with sudo',
      disposition: 'reject',
      cause: error,
    });
  }
  return new AppError({
    code: 'fleet/unreachable',
    message: `${reasonOf(error)}; see 'systemctl status ${unit}'`,
    disposition: 'retry',
    cause: error,
  });
}

function systemCodesOf(error: unknown): readonly string[] {
  if (!(error instanceof Error)) return [];
  return [systemCodeOf(error) ?? '', ...systemCodesOf(error.cause)];
}

/**
 * What the fleet process of this node knows of the cluster, now and after each change.
 *
 * @throws AppError `fleet/unreachable` (`retry`), `fleet/denied` (`reject`); whatever aborted
 *   `signal`
 */
export async function* watchFleet(signal: AbortSignal): AsyncGenerator<FleetView> {
  const { fleet, paths } = await loadSettings(NODE_SOURCES, signal);
  if (!fleet.enabled) throw fleetOff();
  yield* watchFleetAt(fleetPaths(paths).peersSocket, signal);
}

/** A line of `fleet.keys_file` for this node. @throws AppError `fleet/identity` */
export async function fleetKeyLine(signal: AbortSignal): Promise<string> {
  const { fleet, paths } = await loadSettings(NODE_SOURCES, signal);
  return ownKeyLine(fleet, fleetPaths(paths).stateDir);
}

/** {@link watchFleet} for the process of a unit that listens on a socket. */
export async function* watchFleetAt(path: string, signal: AbortSignal, unit = FLEET_UNIT): AsyncGenerator<FleetView> {
  const connection = new WireConnection({ who: unit, connect: () => connect(path) });
  const client = new OffersClient(connection);
  try {
    let etag: string | undefined;
    for (;;) {
      const next = await client.fleet({ etag, waitMs: WAIT_MS, isFresh: unit === FLEET_UNIT }, signal);
      if (next === undefined) continue;
      etag = next.etag;
      const { version: _, ...view } = next.document;
      yield view;
    }
  } catch (error) {
    signal.throwIfAborted();
    throw fleetError(error, unit);
  } finally {
    connection.close();
  }
}

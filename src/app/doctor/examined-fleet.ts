import type { ExaminedFleet } from '../../doctor/check.ts';
import type { FleetView } from '../../domain/fleet/fleet-view.ts';
import type { Settings } from '../../domain/settings/settings.ts';
import { readIdentity } from '../../fleet/identity/identity.ts';
import { fleetPaths } from '../../offers/fleet-paths.ts';
import { AppError } from '../../platform/app-error.ts';
import { systemClock } from '../../platform/clock.ts';
import { watchFleetAt } from '../fleet/watch-fleet.ts';

/** The fleet process of this node, and the certificate of its kubelet. */
export function examinedFleet({ fleet, paths }: Settings): ExaminedFleet {
  return {
    view: (signal) => firstView(fleetPaths(paths).peersSocket, signal),
    identity: async (signal) => {
      const { identity, validUntil } = await readIdentity(fleet, signal);
      return { node: identity.node, validUntil, now: systemClock.now() };
    },
  };
}

async function firstView(path: string, signal: AbortSignal): Promise<FleetView> {
  for await (const view of watchFleetAt(path, signal)) return view;
  throw new AppError({ code: 'fleet/unreachable', message: 'it told nothing', disposition: 'retry' });
}

import type { Settings } from '../domain/settings/settings.ts';

/** Where the daemon and the fleet process meet, and what belongs to the fleet process. */
export interface FleetPaths {
  /**
   * The socket on which the daemon offers what this node has, by default
   * `/run/stickpin/offers.sock`.
   */
  readonly offersSocket: string;
  /**
   * The socket on which the fleet process offers its peers, by default
   * `/run/stickpin-fleet/peers.sock`.
   */
  readonly peersSocket: string;
  /** The `RuntimeDirectory=` of the fleet process. */
  readonly runDir: string;
  /** The `StateDirectory=` of the fleet process. */
  readonly stateDir: string;
}

/** The paths of both processes: those of the fleet process lie beside those of the daemon. */
export function fleetPaths({ run_dir, state_dir }: Settings['paths']): FleetPaths {
  const runDir = `${run_dir}-fleet`;
  return {
    offersSocket: `${run_dir}/offers.sock`,
    peersSocket: `${runDir}/peers.sock`,
    runDir,
    stateDir: `${state_dir}-fleet`,
  };
}

import type { ContainersPort, RuntimePort } from '../engine/ports.ts';

/** A {@link RuntimePort} that holds connections. */
export interface RuntimeAdapter extends RuntimePort, ContainersPort {
  /** Closes them; running calls fail. */
  close(): void;
}

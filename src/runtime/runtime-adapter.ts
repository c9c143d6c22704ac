import type { ContainersPort, RuntimePort } from '../ports/runtime.ts';

/** A {@link RuntimePort} that holds connections. */
export interface RuntimeAdapter extends RuntimePort, ContainersPort {
  /** Closes them; running calls fail. */
  close(): void;
}

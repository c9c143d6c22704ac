import type { RuntimePort } from '../engine/ports.ts';

/** A {@link RuntimePort} that holds connections. */
export interface RuntimeAdapter extends RuntimePort {
  /** Closes them; running calls fail. */
  close(): void;
}

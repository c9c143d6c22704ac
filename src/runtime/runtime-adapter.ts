import type { ContentPort } from '../ports/image-content.ts';
import type { ContainersPort, RuntimePort } from '../ports/runtime.ts';

/** A {@link RuntimePort} with open connections. */
export interface RuntimeAdapter extends RuntimePort, ContainersPort, ContentPort {
  /** Closes the connections. Running calls fail. */
  close(): void;
}

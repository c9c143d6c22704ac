import type { ServerResponse } from 'node:http';
import { wireLimits } from '../../offers/documents.ts';

/** Counts the requests of each node: one connection can carry many at once. */
export interface Requests {
  /** Counts one until its response ends. @returns false when the node has too many already */
  begin(node: string, response: ServerResponse): boolean;
}

/** Makes a {@link Requests} without any. */
export function createRequests(): Requests {
  const running = new Map<string, number>();
  return {
    begin: (node, response) => {
      const count = running.get(node) ?? 0;
      if (count >= wireLimits.ofNode) return false;
      running.set(node, count + 1);
      response.once('close', () => {
        const left = (running.get(node) ?? 1) - 1;
        if (left === 0) running.delete(node);
        else running.set(node, left);
      });
      return true;
    },
  };
}

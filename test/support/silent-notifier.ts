import type { ServiceNotifier } from '../../src/ports/node.ts';

/** A service manager that nobody hears of. */
export const silentNotifier: ServiceNotifier = {
  ready: () => undefined,
  status: () => undefined,
  reloading: () => undefined,
  stopping: () => undefined,
};

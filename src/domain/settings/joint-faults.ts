import type { Settings } from './settings.ts';

/** What is wrong with several settings together. */
export interface JointFault {
  /** The key to be changed, as `update.windows`. */
  readonly key: string;
  /** A clause that follows the key. */
  readonly message: string;
}

/**
 * What is wrong with all settings together, though each is right by itself; undefined when nothing
 * is.
 */
export function jointFault({ update, fleet }: Settings): JointFault | undefined {
  if (update.strategy === 'window' && update.windows.length === 0) {
    return {
      key: 'update.windows',
      message: 'names no window, and update.strategy is "window": nothing would ever be activated',
    };
  }
  if (fleet.enabled && fleet.auth === 'none' && fleet.listen === 'auto') {
    return {
      key: 'fleet.listen',
      message: 'is "auto", and fleet.auth is "none": name the address on which everybody may read bundles',
    };
  }
  return undefined;
}

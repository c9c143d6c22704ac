import type { Settings } from './settings.ts';

/** What is wrong with several settings together. */
export interface JointFault {
  /** The key to be changed, as `update.windows`. */
  readonly key: string;
  /** A clause that follows the key. */
  readonly message: string;
}

/** What is wrong with all settings together, though each is right by itself. */
export function jointFaults({ update, fleet }: Settings): readonly JointFault[] {
  const faults: JointFault[] = [];
  if (update.strategy === 'window' && update.windows.length === 0) {
    faults.push({
      key: 'update.windows',
      message: 'names no window, and update.strategy is "window": nothing would ever be activated',
    });
  }
  if (fleet.enabled && fleet.auth === 'none' && fleet.listen === 'auto') {
    faults.push({
      key: 'fleet.listen',
      message: 'is "auto", and fleet.auth is "none": name the address on which everybody may read bundles',
    });
  }
  return faults;
}

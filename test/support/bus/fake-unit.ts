import type { UnitControl } from '../../../src/ports/node.ts';

/** The unit of a runtime, as systemd tells of it. */
export interface FakeUnit {
  readonly units: UnitControl;
  /** Announces the unit's `ActiveState`. */
  become(activeState: string): void;
  /**
   * Stops it by `stop` and starts it by `start`, with the states that `systemctl restart` goes
   * through.
   */
  restart(stop: () => Promise<void>, start: () => Promise<void>): Promise<void>;
}

/** A unit that is active. `reload` is what a reload of it does. */
export function createFakeUnit(reload: () => unknown = () => undefined): FakeUnit {
  const listeners = new Set<(activeState?: string) => void>();
  const become = (activeState: string) => {
    for (const listener of listeners) listener(activeState);
  };
  return {
    units: {
      reloadUnit: async () => void (await reload()),
      onUnitChange: (_unit, listener) => {
        listeners.add(listener);
        return () => listeners.delete(listener);
      },
    },
    become,
    restart: async (stop, start) => {
      become('deactivating');
      await stop();
      become('inactive');
      become('activating');
      await start();
      become('active');
    },
  };
}

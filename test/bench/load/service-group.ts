import { readFileSync } from 'node:fs';
import { type ControlGroup, createControlGroup } from './control-group.ts';

/** What systemd gives a unit that says nothing. */
const DEFAULT_WEIGHT = 100;

/**
 * Control groups as systemd makes them: a slice of the whole machine, or a service within a slice.
 * Siblings share the processors by their weights, not by their threads.
 */
export function unitGroup(name: string, weight = DEFAULT_WEIGHT): ControlGroup {
  return createControlGroup(name, {
    v1: { controller: 'cpu', file: 'cpu.shares', text: `${Math.round((weight * 1024) / DEFAULT_WEIGHT)}` },
    v2: { controller: 'cpu', file: 'cpu.weight', text: `${weight}` },
  });
}

/** A daemon and a runtime as services in one slice, as in `system.slice`. */
export interface NodeServices {
  readonly daemon: ControlGroup;
  readonly runtime: ControlGroup;
}

const SLICE = 'stickpin-bench-system';

/**
 * Has `work` use the two groups, the daemon's with the weight of its unit; nothing else is in their
 * slice. @throws Error as {@link createControlGroup}
 */
export function withNodeServices<T>(work: (services: NodeServices) => Promise<T>): Promise<T> {
  return within(unitGroup(SLICE), () =>
    within(unitGroup(`${SLICE}/runtime`), (runtime) =>
      within(unitGroup(`${SLICE}/daemon`, serviceWeight()), (daemon) => work({ daemon, runtime })),
    ),
  );
}

async function within<T>(group: ControlGroup, work: (group: ControlGroup) => Promise<T>): Promise<T> {
  try {
    return await work(group);
  } finally {
    await group.release();
  }
}

/** `CPUWeight=` of the service's own unit, so that what is measured is what runs on a node. */
function serviceWeight(): number {
  return Number(/^CPUWeight=(\d+)$/m.exec(readFileSync('systemd/stickpin.service', 'utf8'))?.[1] ?? DEFAULT_WEIGHT);
}

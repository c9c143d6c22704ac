import { readFileSync } from 'node:fs';
import { type ControlGroup, createControlGroup } from './control-group.ts';

/** What systemd gives a unit that says nothing. */
const DEFAULT_WEIGHT = 100;

/** A group as systemd makes one for each service: who is in it shares the processors with the other groups by its weight, not by its threads. */
export function serviceGroup(name: string, weight = DEFAULT_WEIGHT): ControlGroup {
  return createControlGroup(`stickpin-bench-${name}`, {
    one: { controller: 'cpu', file: 'cpu.shares', text: `${Math.round((weight * 1024) / DEFAULT_WEIGHT)}` },
    two: { controller: 'cpu', file: 'cpu.weight', text: `${weight}` },
  });
}

/** `CPUWeight=` of the service's own unit, so that what is measured is what runs on a node. */
export function serviceWeight(): number {
  return Number(/^CPUWeight=(\d+)$/m.exec(readFileSync('systemd/stickpin.service', 'utf8'))?.[1] ?? DEFAULT_WEIGHT);
}

import { benchLink } from './link.ts';
import { benchMemory } from './memory.ts';
import { benchScale } from './scale.ts';
import { benchSimulatedFleet } from './simulated-fleet.ts';
import { benchSpread } from './spread.ts';

/**
 * Prints what one stick takes to reach other nodes, and what the fleet process takes.
 *
 * @param part `link`, `spread`, `memory` or `scale`; default all
 * @param size only the simulated cluster with so many nodes
 */
export async function benchFleet(print: (text: string) => void, part?: string, size?: string): Promise<void> {
  const scale = async () => {
    if (size === undefined) await benchScale(print);
    await benchSimulatedFleet(print, size);
  };
  const parts = { link: benchLink, spread: benchSpread, memory: benchMemory, scale };
  for (const [name, bench] of Object.entries(parts)) if (part === undefined || part === name) await bench(print);
}

import { benchLink } from './link.ts';
import { benchMemory } from './memory.ts';
import { benchScale } from './scale.ts';
import { benchSimulatedFleet } from './simulated-fleet.ts';
import { benchSpread } from './spread.ts';

/**
 * Prints what one stick takes to reach other nodes, and what the fleet process takes. `part`:
 * `link`, `spread`, `memory` or `scale`; default all.
 */
export async function benchFleet(print: (text: string) => void, part?: string): Promise<void> {
  const scale = async () => {
    await benchScale(print);
    await benchSimulatedFleet(print);
  };
  const parts = { link: benchLink, spread: benchSpread, memory: benchMemory, scale };
  for (const [name, bench] of Object.entries(parts)) if (part === undefined || part === name) await bench(print);
}

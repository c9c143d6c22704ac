import { benchLink } from './link.ts';
import { benchMemory } from './memory.ts';
import { benchScale } from './scale.ts';
import { benchSpread } from './spread.ts';

/**
 * Prints what one stick takes to reach other nodes, and what the fleet process takes. `part`:
 * `link`, `spread`, `memory` or `scale`; default all.
 */
export async function benchFleet(print: (text: string) => void, part?: string): Promise<void> {
  const parts = { link: benchLink, spread: benchSpread, memory: benchMemory, scale: benchScale };
  for (const [name, bench] of Object.entries(parts)) if (part === undefined || part === name) await bench(print);
}

import { benchLink } from './link.ts';
import { benchSpread } from './spread.ts';

/** Prints what one stick takes to reach other nodes. `part`: `link` or `spread`; default both. */
export async function benchFleet(print: (text: string) => void, part?: string): Promise<void> {
  if (part !== 'spread') await benchLink(print);
  if (part !== 'link') await benchSpread(print);
}

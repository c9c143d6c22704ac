import type { Assessment } from '../../assess/assess.ts';
import type { NextWindows } from '../../gates/timing-gates.ts';
import type { Opening } from '../../time/windows.ts';
import { openingText } from '../texts/time-text.ts';

/** One of the next times at which activations may begin (`update.strategy = "window"`). */
export interface WindowReport {
  /** RFC 3339; absent when it is open now. */
  readonly opensAt?: string;
  /** RFC 3339; absent when it does not close within weeks. */
  readonly closesAt?: string;
  /** For people: `Sat 2026-11-28 23:30 to Sun 2026-11-29 00:30 (Europe/Berlin)`. */
  readonly text: string;
}

/** The next windows; empty when activations wait for none. */
export function windowReports({ windows }: Pick<Assessment, 'windows'>): readonly WindowReport[] {
  return windows === undefined ? [] : windows.openings.map((opening) => windowReport(opening, windows));
}

function windowReport(opening: Opening, { timeZone }: NextWindows): WindowReport {
  const { opensAt, closesAt } = opening;
  return {
    ...(opensAt !== undefined && { opensAt: new Date(opensAt).toISOString() }),
    ...(closesAt !== undefined && { closesAt: new Date(closesAt).toISOString() }),
    text: openingText(opening, timeZone),
  };
}

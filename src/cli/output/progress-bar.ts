const BAR_WIDTH = 30;
/** A bar that would have fewer cells is left out. */
const MIN_BAR_WIDTH = 5;

/**
 * A bar of 30 cells and the percentage: `[##########....................] 34 %`. `share` is from 0
 * to 1.
 */
function progressBar(share: number, width = BAR_WIDTH): string {
  const filled = Math.round(within(share) * width);
  return `[${'#'.repeat(filled)}${'.'.repeat(width - filled)}] ${percent(share)}`;
}

/**
 * A bar with `text` behind it, within `columns`. The bar becomes shorter, and then goes, so that
 * the text stays whole: what is at its end is the time left. Without `columns` the bar has 30
 * cells.
 */
export function barWithText(share: number, text: string, columns?: number): string {
  if (columns === undefined) return `${progressBar(share)}  ${text}`;
  const width = Math.min(BAR_WIDTH, columns - `[] ${percent(share)}  ${text}`.length);
  return width < MIN_BAR_WIDTH ? text : `${progressBar(share, width)}  ${text}`;
}

function percent(share: number): string {
  return `${Math.floor(within(share) * 100)} %`;
}

function within(share: number): number {
  return Math.min(1, Math.max(0, share));
}

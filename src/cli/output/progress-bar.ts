const BAR_WIDTH = 30;

/**
 * A bar of 30 cells and the percentage: `[##########....................] 34 %`. `share` is from 0
 * to 1.
 */
export function progressBar(share: number): string {
  const filled = Math.round(within(share) * BAR_WIDTH);
  return `[${'#'.repeat(filled)}${'.'.repeat(BAR_WIDTH - filled)}] ${Math.floor(within(share) * 100)} %`;
}

function within(share: number): number {
  return Math.min(1, Math.max(0, share));
}

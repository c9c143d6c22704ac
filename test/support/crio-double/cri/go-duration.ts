const unitsMs: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
};

/**
 * Milliseconds of a duration as Go writes it, as `1m30s`, `500ms` or `0`.
 *
 * @throws Error that quotes what could not be read.
 */
export function parseGoDuration(text: string): number {
  if (text === '0') return 0;
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)/g)];
  if (parts.length === 0 || parts.map(([whole]) => whole).join('') !== text) {
    throw new Error(`time: invalid duration "${text}"`);
  }
  return parts.reduce((sum, [, amount, unit = '']) => sum + Number(amount) * (unitsMs[unit] ?? 0), 0);
}

/** The same backwards, as `1m30s`; 0 is `0s`, what is less than a second is in `ms`. */
export function formatGoDuration(durationMs: number): string {
  if (durationMs > 0 && durationMs < 1_000) return `${durationMs}ms`;
  const hours = Math.floor(durationMs / 3_600_000);
  const minutes = Math.floor((durationMs % 3_600_000) / 60_000);
  const seconds = `${(durationMs % 60_000) / 1_000}s`;
  if (hours > 0) return `${hours}h${minutes}m${seconds}`;
  return minutes > 0 ? `${minutes}m${seconds}` : seconds;
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;

function scaled(bytes: number): { value: number; unit: (typeof UNITS)[number] } {
  let value = bytes;
  let index = 0;
  while (value >= 1024 && index < UNITS.length - 1) {
    value /= 1024;
    index += 1;
  }
  return { value, unit: UNITS[index] ?? 'B' };
}

/** `512 B`, `84 MiB`, `14.2 GiB`: whole below one GiB, else one decimal. */
export function formatBytes(bytes: number): string {
  const { value, unit } = scaled(bytes);
  const text = value.toFixed(digitsOf(unit));
  const next = UNITS[UNITS.indexOf(unit) + 1];
  // A value that rounds up to 1024 is shown in the next unit.
  return Number(text) >= 1024 && next !== undefined ? `${(1).toFixed(digitsOf(next))} ${next}` : `${text} ${unit}`;
}

function digitsOf(unit: (typeof UNITS)[number]): number {
  return unit === 'GiB' || unit === 'TiB' ? 1 : 0;
}

/** Both numbers have the unit of the total: `5.1 of 16.0 GiB`, `12 of 340 MiB`. */
export function formatBytesOf(doneBytes: number, totalBytes: number): string {
  const { unit } = scaled(totalBytes);
  const power = 1024 ** UNITS.indexOf(unit);
  const digits = digitsOf(unit);
  return `${(doneBytes / power).toFixed(digits)} of ${(totalBytes / power).toFixed(digits)} ${unit}`;
}

/** `8 s`, `2 min 10 s` (steps of ten seconds from a minute), `1 h 5 min`. */
export function formatDuration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) {
    const rounded = Math.round(seconds / 10) * 10;
    if (rounded < 3600) {
      const seconds = rounded % 60;
      return seconds === 0 ? `${Math.floor(rounded / 60)} min` : `${Math.floor(rounded / 60)} min ${seconds} s`;
    }
  }
  const minutes = Math.round(seconds / 60);
  return minutes % 60 === 0 ? `${Math.floor(minutes / 60)} h` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** `1 image`, `112 images`, `0 tags`. */
export function formatCount(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

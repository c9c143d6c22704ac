import { existsSync } from 'node:fs';

/**
 * The new path of a damaged file, for example `state.db.damaged-20260310T120000Z`. A number is
 * added if that exists. @param now milliseconds since the epoch
 */
export function damagedName(path: string, now: number): string {
  const time = new Date(now).toISOString().replace(/[-:]|\.\d+/g, '');
  const name = `${path}.damaged-${time}`;
  for (let count = 1; ; count += 1) {
    const candidate = count === 1 ? name : `${name}-${count}`;
    if (!existsSync(candidate) && !existsSync(`${candidate}-wal`)) return candidate;
  }
}

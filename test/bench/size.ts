/**
 * Whether each section runs once with small images (`STICKPIN_BENCH=small`): that it works is what
 * counts then, and no figure does.
 */
const isSmall = process.env.STICKPIN_BENCH === 'small';

/** What a section measures with, and what it takes in its place when it is only tried. */
export function sized<T>(measured: T, tried: T): T {
  return isSmall ? tried : measured;
}

/** The longest that one section takes; `.ci/deep` tries all of them. */
export const SECTION_LIMIT_MS = sized(21_600_000, 1_800_000);

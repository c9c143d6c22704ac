import type { StatusReport } from './report.ts';

/** What counters count, from one report to the next. */
export interface ReportChanges {
  /** Of the time between the reports, how much was spent preloading, in milliseconds. */
  readonly preloadedMs: number;
  /** Codes of the reasons of bundles that were newly rejected. */
  readonly rejections: readonly string[];
  readonly media: readonly MediaChange[];
}

/** What happened to a medium. `failed`: it can't be read. */
export type MediaChange = (typeof MEDIA_CHANGES)[number];

export const MEDIA_CHANGES = ['plugged', 'removed', 'failed'] as const;

/**
 * What happened between two reports. Before the first one nothing is known: what is there then
 * counts as new.
 *
 * @param elapsedMs the time between them
 */
export function reportChanges(before: StatusReport | undefined, after: StatusReport, elapsedMs: number): ReportChanges {
  const key = ({ medium, path, reason }: StatusReport['rejected'][number]) => `${medium}\n${path}\n${reason.code}`;
  const known = new Set(before?.rejected.map(key));
  const isPreloading = before?.operation === 'preloading';
  return {
    preloadedMs: isPreloading ? Math.max(0, elapsedMs) : 0,
    rejections: after.rejected.filter((one) => !known.has(key(one))).map(({ reason }) => reason.code),
    media: mediaChanges(before?.media ?? [], after.media),
  };
}

function mediaChanges(before: StatusReport['media'], after: StatusReport['media']): MediaChange[] {
  const states = new Map(before.map(({ medium, state }) => [medium, state]));
  const now = new Set(after.map(({ medium }) => medium));
  return [
    ...after.flatMap(({ medium, state }): MediaChange[] => [
      ...(states.has(medium) ? [] : ['plugged' as const]),
      ...(state === 'failed' && states.get(medium) !== 'failed' ? ['failed' as const] : []),
    ]),
    ...before.flatMap(({ medium }): MediaChange[] => (now.has(medium) ? [] : ['removed'])),
  ];
}

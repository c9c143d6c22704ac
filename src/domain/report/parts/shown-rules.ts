import type { Payload, UpdateRules } from '../../model/bundle.ts';
import { percentText } from '../texts/time-text.ts';

/** A rule of a release, as it is shown. */
export interface ShownRule {
  readonly rule: 'from' | 'rollout' | 'endOfLife' | 'barrier' | 'deadend';
  readonly value: string;
  /**
   * `holds-activation`: of this release, while it applies. `holds-others`: other releases of its
   * stream wait for it, or are not reached from it.
   */
  readonly effect: 'holds-activation' | 'holds-others';
}

/** The rules of a payload. */
export function shownRules({ update }: Pick<Payload, 'update'>): readonly ShownRule[] {
  const { from, rollout, endOfLife, barrier, deadend } = update ?? {};
  const rule = (name: ShownRule['rule'], value: string | undefined): ShownRule[] => {
    const effect = name === 'barrier' || name === 'deadend' ? 'holds-others' : 'holds-activation';
    return value === undefined ? [] : [{ rule: name, value, effect }];
  };
  return [
    ...rule('from', from),
    ...rule('rollout', rollout && rolloutText(rollout)),
    ...rule('endOfLife', endOfLife),
    ...rule('barrier', barrier?.reason),
    ...rule('deadend', deadend?.reason),
  ];
}

/** A rollout in words: `from 2026-03-10T12:00:00Z, over 90 minutes, 10 % of the nodes at once`. */
export function rolloutText({ start, durationMinutes, startPercentage }: NonNullable<UpdateRules['rollout']>): string {
  const minutes = durationMinutes === 1 ? '1 minute' : `${durationMinutes} minutes`;
  const over = durationMinutes === undefined ? '' : `, over ${minutes}`;
  const atOnce = startPercentage === undefined ? '' : `, ${percentText(startPercentage)} of the nodes at once`;
  return `from ${start ?? 'the beginning'}${over}${atOnce}`;
}

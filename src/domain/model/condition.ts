/** The conditions of a bundle, in the order in which they are shown. */
export const CONDITION_TYPES = [
  'Verified',
  'SpaceAvailable',
  'Preloaded',
  'Pinned',
  'Active',
  'Proven',
  'Degraded',
] as const;

/** What a condition is about. All but `Degraded` are good when they are `True`. */
export type ConditionType = (typeof CONDITION_TYPES)[number];

/** `Unknown` when it can't be observed now, as while the runtime does not answer. */
export type ConditionStatus = 'True' | 'False' | 'Unknown';

/**
 * The result of one round for one condition (Kubernetes API conventions, "Typical status
 * properties").
 */
export interface ConditionVerdict {
  readonly type: ConditionType;
  readonly status: ConditionStatus;
  /** One word in CamelCase, for programs. */
  readonly reason: string;
  /** Text for display. It may change while the status stays. */
  readonly message: string;
}

/** A condition as it is shown. */
export interface Condition extends ConditionVerdict {
  /** When the status last changed, RFC 3339. */
  readonly lastTransitionTime: string;
}

/**
 * The last status of each condition of a bundle, and since when it has been so, in milliseconds
 * since the epoch.
 */
export type ConditionMarks = Readonly<
  Partial<Record<ConditionType, { readonly status: ConditionStatus; readonly since: number }>>
>;

/**
 * The marks after a round. An unchanged status keeps its time, even if its reason or message
 * changes.
 *
 * @returns `marks` itself when no status changed, so that nothing needs to be written.
 */
export function marksAfter(marks: ConditionMarks, verdicts: readonly ConditionVerdict[], now: number): ConditionMarks {
  const changed = verdicts.filter(({ type, status }) => marks[type]?.status !== status);
  if (changed.length === 0) return marks;
  return { ...marks, ...Object.fromEntries(changed.map(({ type, status }) => [type, { status, since: now }])) };
}

/** The verdicts with their times. */
export function conditionsOf(verdicts: readonly ConditionVerdict[], marks: ConditionMarks): readonly Condition[] {
  return verdicts.map((verdict) => ({
    ...verdict,
    lastTransitionTime: new Date(marks[verdict.type]?.since ?? 0).toISOString(),
  }));
}

/** A code as the reason of a condition: `trust/key-revoked` is `TrustKeyRevoked`. */
export function reasonWord(code: string): string {
  const words = code.split(/[^A-Za-z0-9]+/).filter((word) => word !== '');
  return words.map((word) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`).join('');
}

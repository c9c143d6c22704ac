import type { MessageKind } from '../../platform/message-ids.ts';
import type { BundleId, Digest } from './digest.ts';
import type { Reason } from './reason.ts';

/** Display uses this order. */
export const CONDITION_TYPES = [
  'Verified',
  'SpaceAvailable',
  'Preloaded',
  'Pinned',
  'Active',
  'Proven',
  'Degraded',
] as const;

export const NODE_CONDITION_TYPES = ['PullsAnswered', 'PullsFromElsewhere'] as const;

/** `PullsAnswered` is good when it is `True`, `PullsFromElsewhere` when it is `False`. */
export type NodeConditionType = (typeof NODE_CONDITION_TYPES)[number];

/** All but `Degraded` are good when they are `True`. */
export type ConditionType = (typeof CONDITION_TYPES)[number];

/** `Unknown` means that it can't be observed. */
export type ConditionStatus = 'True' | 'False' | 'Unknown';

/** Kubernetes API conventions, "Typical status properties". */
export interface ConditionVerdict<Type extends string = ConditionType> {
  readonly type: Type;
  readonly status: ConditionStatus;
  /** One word in CamelCase, for programs. */
  readonly reason: string;
  /** The message may change while the status stays. */
  readonly message: string;
}

export interface Condition<Type extends string = ConditionType> extends ConditionVerdict<Type> {
  /** RFC 3339. */
  readonly lastTransitionTime: string;
}

/** Keeps the last status of each condition, and since when, in milliseconds since the epoch. */
export type ConditionMarks<Type extends string = ConditionType> = Readonly<
  Partial<Record<Type, { readonly status: ConditionStatus; readonly since: number }>>
>;

/** @returns `marks` itself when no status changed */
export function marksAfter<Type extends string>(
  marks: ConditionMarks<Type>,
  verdicts: readonly ConditionVerdict<Type>[],
  now: number,
): ConditionMarks<Type> {
  const changed = verdicts.filter(({ type, status }) => marks[type]?.status !== status);
  if (changed.length === 0) return marks;
  return { ...marks, ...Object.fromEntries(changed.map(({ type, status }) => [type, { status, since: now }])) };
}

export function conditionsOf<Type extends string>(
  verdicts: readonly ConditionVerdict<Type>[],
  marks: ConditionMarks<Type>,
): readonly Condition<Type>[] {
  return verdicts.map((verdict) => ({
    ...verdict,
    lastTransitionTime: new Date(marks[verdict.type]?.since ?? 0).toISOString(),
  }));
}

/** `trust/key-revoked` becomes `TrustKeyRevoked`. */
export function reasonWord(code: string): string {
  const words = code.split(/[^A-Za-z0-9]+/).filter((word) => word !== '');
  return words.map((word) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`).join('');
}

/** One sentence for the journal and for the history. */
export interface Event {
  /** Selects the MESSAGE_ID and catalog entry. */
  readonly kind: MessageKind;
  /** `debug` is for the history. The journal has it only with `log.level` `debug`. */
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly message: string;
  /** See `EventRow.by`. Default `daemon`. */
  readonly by?: string;
  readonly bundleId?: BundleId;
  readonly medium?: string;
  readonly digest?: Digest;
  /** The path of the blob's file, relative to the root of the medium. */
  readonly file?: string;
  readonly code?: string;
  readonly image?: string;
  /** The history omits it: other nodes could push the other events out. */
  readonly isLogOnly?: true;
}

export type Hold = 'approval' | 'base' | 'space' | 'media' | 'runtime' | 'runtime-version' | 'cancelled';

/** These words are public and shown everywhere. */
export type Phase =
  | 'detected'
  | 'rejected'
  | 'held'
  | 'preloading'
  | 'ready'
  | 'activated'
  | 'active'
  | 'proven'
  | 'superseded'
  | 'retired';

/** The diagram in the documentation is made from this list. */
export const PHASES: readonly { readonly phase: Phase; readonly next: readonly Phase[] }[] = [
  { phase: 'detected', next: ['rejected', 'held', 'preloading', 'ready'] },
  { phase: 'rejected', next: ['detected', 'held', 'preloading'] },
  { phase: 'held', next: ['rejected', 'preloading', 'ready', 'retired'] },
  { phase: 'preloading', next: ['rejected', 'held', 'ready', 'retired'] },
  { phase: 'ready', next: ['held', 'preloading', 'activated', 'retired'] },
  { phase: 'activated', next: ['active', 'proven', 'retired'] },
  { phase: 'active', next: ['activated', 'proven', 'retired'] },
  { phase: 'proven', next: ['superseded', 'activated', 'retired'] },
  { phase: 'superseded', next: ['activated', 'retired'] },
  { phase: 'retired', next: ['preloading', 'ready', 'activated'] },
];

export interface PhaseOf {
  readonly phase: Phase;
  readonly hold?: Hold;
  /** Set for `rejected`, `held` and any degraded phase. */
  readonly reason?: Reason;
}

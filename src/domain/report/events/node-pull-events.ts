import type { ConditionStatus, Event, NodeConditionType } from '../../model/condition.ts';
import { judgeNodeConditions, type NodeVerdict } from '../node-conditions.ts';
import type { Snapshot } from '../snapshot.ts';

/** The conditions of the node that became bad, or good again, from one round to the next. */
export function nodePullEvents(before: Snapshot | undefined, after: Snapshot): Event[] {
  const was = before === undefined ? [] : judgeNodeConditions(before);
  const is = judgeNodeConditions(after);
  const answered = changed('PullsAnswered', was, is);
  const elsewhere = changed('PullsFromElsewhere', was, is);
  const events: Event[] = [];
  // Mirrors come and go while they are written, and what fails there is reported by itself.
  if (answered?.is.status === 'False' && answered.is.reason !== 'NoMirror') {
    events.push({ kind: 'pullsUnanswered', level: 'warn', message: sentenceOf(answered.is) });
  }
  if (answered?.is.status === 'True' && answered.was === 'False') {
    events.push({ kind: 'pullsAnswered', level: 'info', message: sentenceOf(answered.is) });
  }
  if (elsewhere?.is.status === 'True') {
    events.push({ kind: 'pullsFromElsewhere', level: 'warn', message: sentenceOf(elsewhere.is) });
  }
  return events;
}

interface Change {
  readonly was: ConditionStatus | undefined;
  readonly is: NodeVerdict;
}

function changed(
  type: NodeConditionType,
  before: readonly NodeVerdict[],
  after: readonly NodeVerdict[],
): Change | undefined {
  const was = before.find((verdict) => verdict.type === type)?.status;
  const is = after.find((verdict) => verdict.type === type);
  return is === undefined || is.status === was ? undefined : { was, is };
}

function sentenceOf({ message }: NodeVerdict): string {
  return `${message.charAt(0).toUpperCase()}${message.slice(1)}`;
}

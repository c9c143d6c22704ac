import type { Reason } from '../../../src/domain/model/reason.ts';
import { reasonText, shownReason } from '../../../src/domain/report/reasons/reason-text.ts';

interface Reasons {
  readonly reason?: Reason | undefined;
  readonly trouble?: Reason | undefined;
  readonly degraded?: Reason | undefined;
}

/** The sentence of a reason, if there is one. */
export function textOf(reason: Reason | undefined): string | undefined {
  return reason && reasonText(reason);
}

/** A conclusion with its reasons as people are told of them, to compare with. */
export function told(entry: Reasons | undefined): object {
  const { reason, trouble, degraded } = entry ?? {};
  const shown = (one: Reason | undefined) => one && shownReason(one);
  return { ...entry, reason: shown(reason), trouble: shown(trouble), degraded: shown(degraded) };
}

import type { StatusReport } from '../../../domain/report/report.ts';
import { withoutRate } from '../../../domain/report/status/progress-text.ts';
import { paint } from '../colour.ts';
import type { Layout } from '../table.ts';
import { wrapLines } from '../wrap-words.ts';
import { renderStatus } from './render-status.ts';

/** When a report was written (RFC 3339), and whether the machine was started since. */
interface StoredTime {
  readonly writtenAt: string;
  readonly isFromBefore: boolean;
}

/** That the daemon does not run, above what it wrote last. */
export function storedHead({ writtenAt, isFromBefore }: StoredTime, { columns, hasColour }: Layout = {}): string {
  const boot = isFromBefore ? ', before the last boot' : '';
  const lines = wrapLines(`The daemon does not run. This is the state of ${writtenAt}${boot}.`, columns, 4).split('\n');
  return lines.map((line) => `${paint(line, 'bad', hasColour)}\n`).join('');
}

/** The output of `stickpin status` while the daemon does not run: no bar, and no time left. */
export function renderStoredStatus(report: StatusReport, time: StoredTime, layout: Layout = {}): string {
  const progress = { doneBytes: 0, totalBytes: 0 };
  const still = { ...report, status: withoutRate(report.status), progress };
  return `${storedHead(time, layout)}${renderStatus(still, layout)}`;
}

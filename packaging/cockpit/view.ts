import { progressText } from '../../src/domain/report/status/media-line.ts';
import type { BundleReport, StatusReport, StreamReport } from '../../src/domain/report/status-schema.ts';

/** What of the report is shown, as plain data. */

export type Tone = 'good' | 'info' | 'warning' | 'danger' | 'none';

export interface Headline {
  readonly tone: Tone;
  readonly title: string;
  readonly code?: string | undefined;
  readonly text: string;
}

/** What a report says to the person at the node; a daemon of an earlier version says nothing. */
interface Advised {
  readonly advice?: {
    readonly action: 'leave-in' | 'remove' | 'plug-in' | 'call-support' | 'wait' | 'none';
    readonly words: string;
    readonly afterwards?: string;
    readonly code?: string;
    readonly text: string;
  };
  readonly needsPerson?: readonly { readonly code: string; readonly message: string; readonly bundle?: string }[];
}

const ACTION_TONES = {
  'leave-in': 'info',
  remove: 'good',
  'plug-in': 'warning',
  'call-support': 'danger',
  wait: 'info',
  none: 'good',
} as const;

/** What the action alone does not say. */
const VERDICT_TONES: Readonly<Record<string, Tone>> = { works: 'info', 'needs-person': 'warning', failed: 'danger' };

/** What a person at the node has to do first. */
export function headlineOf({ advice, verdict, status, runtime }: StatusReport & Advised): Headline {
  if (advice === undefined) return { tone: runtime.reachable ? 'info' : 'danger', title: 'STATUS', text: status };
  const { action, words, code, text } = advice;
  return { tone: VERDICT_TONES[verdict ?? ''] ?? ACTION_TONES[action], title: words, code, text };
}

/** For Cockpit's menu and the line in Health; null while nobody is needed. */
export function pageStatusOf({
  advice,
  needsPerson: [need] = [],
  verdict,
}: Pick<StatusReport, 'verdict'> & Advised): { readonly type: string; readonly title: string } | null {
  const type = { failed: 'error', 'needs-person': 'warning' }[verdict as string];
  const isAct = advice?.action === 'plug-in' || advice?.action === 'call-support';
  const said = isAct ? advice.words : advice?.afterwards === 'call-support' ? 'CALL SUPPORT' : undefined;
  const words = said ?? 'A person is needed';
  const which = said === undefined ? need?.code : advice?.code;
  const code = which === undefined ? '' : ` (${which})`;
  return type === undefined ? null : { type, title: `stickpin: ${words}${code}` };
}

/** What else ends only when a person does something. */
export function othersOf({ advice, needsPerson = [] }: Advised): NonNullable<Advised['needsPerson']> {
  const [only, ...more] = needsPerson;
  return more.length === 0 && only?.code === advice?.code ? [] : needsPerson;
}

export interface Transfer {
  readonly percent: number;
  readonly text: string;
  readonly images: readonly string[];
}

/** The preload that runs; undefined when none does. */
export function transferOf({ operation, progress }: StatusReport): Transfer | undefined {
  const { doneBytes, totalBytes, images = [] } = progress;
  if (operation !== 'preloading' || totalBytes === 0) return undefined;
  const percent = Math.min(100, Math.floor((100 * doneBytes) / totalBytes));
  return { percent, text: progressText(progress), images };
}

type Titled = Pick<BundleReport, 'bundleId' | 'name' | 'version'>;

/** `ocp 4.13.7`, or the beginning of the digest while no trusted key signed it. */
export function titleOf({ bundleId, name, version }: Titled): string {
  return name === '' ? `Bundle ${bundleId.slice(0, 'sha256:'.length + 12)}…` : `${name} ${version}`;
}

const PHASE_TONES: Readonly<Record<string, Tone>> = {
  rejected: 'danger',
  held: 'warning',
  preloading: 'info',
  ready: 'info',
  activated: 'info',
  active: 'good',
  proven: 'good',
};

export function toneOfBundle({ phase, degraded }: Pick<BundleReport, 'phase' | 'degraded'>): Tone {
  return degraded === undefined ? (PHASE_TONES[phase] ?? 'none') : 'danger';
}

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
}

/** All but `Degraded` and `PullsFromElsewhere` are good when they are `True`. */
export function toneOfCondition({ type, status, reason }: Condition): Tone {
  if (reason === 'NothingActivated') return 'none';
  if (status === 'Unknown') return 'warning';
  const isBadWhenTrue = type === 'Degraded' || type === 'PullsFromElsewhere';
  if ((status === 'True') !== isBadWhenTrue) return 'good';
  return isBadWhenTrue || type === 'PullsAnswered' ? 'danger' : 'none';
}

export type BundleAction = 'activate' | 'approve' | 'reject';

/** What a person may do with a bundle, in the order of the buttons. The daemon decides. */
export function actionsOf({ phase, hold, current, adoptedAt, activationHolds }: BundleReport): readonly BundleAction[] {
  const canActivate =
    ['ready', 'activated', 'active', 'proven', 'superseded'].includes(phase) &&
    (current !== true || activationHolds !== undefined);
  const canApprove = hold === 'approval' || phase === 'rejected';
  const canReject = phase !== 'rejected' && phase !== 'retired' && (adoptedAt !== undefined || canApprove);
  return [
    ...(canActivate ? (['activate'] as const) : []),
    ...(canApprove ? (['approve'] as const) : []),
    ...(canReject ? (['reject'] as const) : []),
  ];
}

/** Whether the stream has a release to go back to. */
export function hasFallback({ bundles }: StatusReport, stream: string): boolean {
  return bundles.some(
    ({ name, phase, current }) => name === stream && current !== true && (phase === 'superseded' || phase === 'proven'),
  );
}

/** The release of the stream that is current, if it is among the bundles. */
export function currentOf({ bundles }: StatusReport, stream: string): BundleReport | undefined {
  return bundles.find(({ name, current }) => name === stream && current === true);
}

export interface GraphRow {
  readonly version: string;
  readonly tone: Tone;
  readonly phase: string;
  readonly notes: readonly string[];
  readonly from: readonly string[];
}

export interface GraphEdge {
  /** Rows, from 0 at the top. */
  readonly from: number;
  readonly to: number;
}

/** The update graph, the newest release first. */
export function graphOf({ releases, current, next }: StreamReport): {
  readonly rows: readonly GraphRow[];
  readonly edges: readonly GraphEdge[];
} {
  const sorted = [...releases].reverse();
  const rowOf = new Map(sorted.map(({ version }, row) => [version, row]));
  const rows = sorted.map(({ version, phase, barrier, deadend, from }) => ({
    version,
    phase,
    tone: PHASE_TONES[phase] ?? 'none',
    notes: [
      ...(version === current?.version ? ['current'] : []),
      ...(version === next ? ['next'] : []),
      ...(barrier === undefined ? [] : [`barrier: ${barrier}`]),
      ...(deadend === undefined ? [] : [`dead end: ${deadend}`]),
    ],
    from,
  }));
  const edges = rows.flatMap(({ from }, to) =>
    from.flatMap((version) => {
      const row = rowOf.get(version);
      return row === undefined || row === to ? [] : [{ from: row, to }];
    }),
  );
  return { rows, edges };
}

/** In the language and the time zone of the browser. */
export function timeText(time: string | number): string {
  const date = new Date(time);
  if (Number.isNaN(date.valueOf())) return String(time);
  return new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' }).format(date);
}

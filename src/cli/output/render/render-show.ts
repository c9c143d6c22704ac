import type { BundleReport } from '../../../domain/report/parts/bundle-report.ts';
import type { RecordedBundle } from '../../../domain/report/parts/recorded-report.ts';
import type { StatusReport } from '../../../domain/report/report.ts';
import { withoutRate } from '../../../domain/report/status/media-line.ts';
import type { TrustReport } from '../../../domain/trust/trust-in-force.ts';
import { oneLine } from '../../../platform/plain-text.ts';
import { formatCount } from '../../../platform/sizes.ts';
import { paint, type Tone } from '../colour.ts';
import { shownMembers } from '../shown-members.ts';
import { formatStacked, formatTable } from '../table.ts';
import { commandNameIn, type Layout, wrapLines } from '../text.ts';
import { adviceOf, holdEnd, renderStatus, ruleName, ruleText } from './render-status.ts';

/**
 * A bundle for `stickpin show`: an adopted release, one that waits for approval, a notice, a
 * rejected bundle, or a name that was rejected ahead of its stick.
 */
export type ShownBundle =
  | BundleReport
  | RecordedBundle
  | (StatusReport['notices'][number] & { readonly phase?: undefined })
  | (StatusReport['rejected'][number] & { readonly phase: string })
  | (StatusReport['rejectedNames'][number] & { readonly phase: string; readonly bundleId?: undefined });

const LABEL_WIDTH = 14;

/**
 * The output of `stickpin show`: a line for each member in words; all holds of its activation; its
 * rules and their effect; its conditions; and the keys and rules of trust in use, if they are
 * known.
 */
export function renderShow(
  bundle: ShownBundle,
  trust: TrustReport | undefined,
  layout: Layout = {},
  bundles: Parameters<typeof commandNameIn>[1] = [],
): string {
  const {
    conditions,
    rules = [],
    advisory,
    activationHolds = [],
    warnings = [],
    ...members
  } = bundle as Partial<BundleReport>;
  const { name = '', version = '', bundleId = '', phase = '' } = members;
  const command = commandNameIn({ name, version, bundleId, phase }, bundles);
  const shown = [
    ...shownMembers(members),
    ...activationHolds.map((hold) => ['held', `${hold.message}${holdEnd(hold, command)}`] as const),
    ...warnings.map((warning) => ['warning', warning] as const),
    ...rules.map((rule) => [ruleName(rule), ruleText(rule)] as const),
    ...(advisory === undefined ? [] : [['advisory', adviceOf(advisory)] as const]),
  ];
  const lines = shown.map(([name, text]) => `${`${name}:`.padEnd(LABEL_WIDTH)}${oneLine(text)}\n`);
  const rows = (conditions ?? []).map(({ type, status, lastTransitionTime, reason, message }) => [
    type,
    { text: status, tone: toneOf(type, status) },
    lastTransitionTime,
    reason,
    oneLine(message),
  ]);
  const table =
    rows.length === 0
      ? ''
      : `\n${formatStacked(['CONDITION', 'STATUS', 'SINCE', 'REASON', 'MESSAGE'], rows, 1, layout)}`;
  const text = wrapLines(lines.join(''), layout.columns, LABEL_WIDTH);
  if (trust === undefined) return `${text}${table}`;
  return `${text}${table}\n${renderTrust(trust, members.signerKeyIds ?? [], layout)}`;
}

/** `Degraded` is bad when it is true, all others when they are false. */
function toneOf(type: string, status: string): Tone | undefined {
  if (status === 'Unknown') return 'warning';
  const isBad = (status === 'True') === (type === 'Degraded');
  if (type === 'Degraded') return isBad ? 'bad' : undefined;
  return isBad ? undefined : 'good';
}

/** The trusted and the revoked keys. Keys that signed the bundle are marked. */
function renderTrust(
  { require, threshold, keys, roles = [], revoked, problems }: TrustReport,
  signers: readonly string[],
  layout: Layout,
): string {
  const markOf = (keyId: string) => (signers.includes(keyId) ? 'signed this' : '');
  const rows = [
    ...keys.map(({ name, keyId, broughtBy }) => [
      oneLine(name),
      keyId,
      broughtBy === undefined ? 'trusted' : `trusted, added by bundle ${broughtBy}`,
      markOf(keyId),
    ]),
    ...roles.flatMap((role) =>
      role.keys.map(({ name, keyId, broughtBy }) => [
        oneLine(name),
        keyId,
        `in role ${role.name}${broughtBy === undefined ? '' : `, added by bundle ${broughtBy}`}`,
        markOf(keyId),
      ]),
    ),
    ...revoked.map(({ keyId, revokedBy }) => [
      '-',
      keyId,
      revokedBy === undefined ? 'revoked' : `revoked by ${revokedBy}`,
      markOf(keyId),
    ]),
  ];
  const policy = `Trust in force: trust.require = "${require}", trust.threshold = ${threshold}\n`;
  const table = rows.length === 0 ? 'No key is trusted.\n' : formatTable(['KEY', 'KEY ID', 'STATE', ''], rows, layout);
  const lines = [...roles.map(roleText), ...problems].map((line) => `${oneLine(line)}\n`);
  return `${policy}${table}${wrapLines(lines.join(''), layout.columns, 4)}`;
}

/** What the keys of a role may sign: one line, without line end. */
export function roleText({
  name,
  threshold,
  streams,
  repositories,
  mayRotate,
}: NonNullable<TrustReport['roles']>[number]): string {
  const where = repositories.length === 0 ? 'for no image at all' : `for images below ${repositories.join(', ')}`;
  const rotation = mayRotate ? 'may bring and revoke keys of the role' : 'may not change keys';
  return `Role ${name}: ${formatCount(threshold, 'key')} must sign; streams ${streams.join(', ')}, ${where}; ${rotation}`;
}

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

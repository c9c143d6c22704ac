import type { Advisory } from '../../../domain/model/bundle.ts';
import { shortCode } from '../../../domain/report/codes.ts';
import type { RecordedBundle } from '../../../domain/report/parts/recorded-report.ts';
import type { ShownReason } from '../../../domain/report/reasons/reason-text.ts';
import type { BundleReport, ImageState, StatusReport, TrustReport } from '../../../domain/report/status-schema.ts';
import { oneLine } from '../../../platform/plain-text.ts';
import { formatBytes, formatCount } from '../../../platform/sizes.ts';
import { paint, type Tone } from '../colour.ts';
import { type Cell, formatStacked, formatTable } from '../table.ts';
import { commandNameIn, type Layout, shortDigests, wrapLines } from '../text.ts';
import { adviceKinds, adviceOf, holdEnd, renderStatus, ruleName, ruleText } from './render-status.ts';

/**
 * An adopted release, one that waits for approval, a notice, a rejected bundle, or a name that was
 * rejected before its stick came.
 */
export type ShownBundle =
  | BundleReport
  | RecordedBundle
  | (StatusReport['notices'][number] & { readonly phase?: undefined })
  | (StatusReport['rejected'][number] & { readonly phase: string })
  | (StatusReport['rejectedNames'][number] & { readonly phase: string; readonly bundleId?: undefined });

const LABEL_WIDTH = 14;

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
    verified = [],
    ignored = [],
    ...members
  } = bundle as Partial<BundleReport>;
  const { name = '', version = '', bundleId = '' } = members;
  const command = commandNameIn({ name, version, bundleId }, bundles);
  const shown = [
    ...shownMembers(members),
    ...activationHolds.map((hold) => ['held', `${hold.message}${holdEnd(hold, command)}`] as const),
    ...warnings.map((warning) => ['warning', warning] as const),
    ...verified.map((line) => ['verified', line] as const),
    ...ignored.map((member) => ['ignored', `${member}, unknown when stickpin read the bundle`] as const),
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

/** Digests are short on a terminal. */
export function renderImages(images: readonly ImageState[], layout: Layout = {}): string {
  if (images.length === 0) return 'It has no images.\n';
  const answer = (state: boolean | undefined): Cell => {
    if (state === undefined) return '-';
    return state ? 'yes' : { text: 'no', tone: 'warning' };
  };
  const rows = images.map(({ component, name, digest, sizeBytes, present, pinned }) => [
    component ?? '-',
    name,
    shortDigests(digest, layout),
    formatBytes(sizeBytes),
    answer(present),
    answer(pinned),
  ]);
  return formatTable(['COMPONENT', 'NAME', 'DIGEST', 'SIZE', 'PRESENT', 'PINNED'], rows, layout);
}

/** `Degraded` is bad when it is true, all others when they are false. */
function toneOf(type: string, status: string): Tone | undefined {
  if (status === 'Unknown') return 'warning';
  const isBad = (status === 'True') === (type === 'Degraded');
  if (type === 'Degraded') return isBad ? 'bad' : undefined;
  return isBad ? undefined : 'good';
}

function renderTrust(
  { require, threshold, keys, roles = [], revoked, problems }: TrustReport,
  signers: readonly string[],
  layout: Layout,
): string {
  const markOf = (keyId: string) => (signers.includes(keyId) ? 'signed this' : '');
  const rows = [
    ...allKeys({ keys, roles }).map(({ name, keyId, state, broughtBy }) => [
      oneLine(name),
      keyId,
      `${state}${broughtBy === undefined ? '' : `, added by bundle ${broughtBy}`}`,
      markOf(keyId),
    ]),
    ...revoked.map(({ keyId, revokedBy }) => [
      '-',
      keyId,
      revokedBy === undefined ? 'revoked' : `revoked by ${revokedBy}`,
      markOf(keyId),
    ]),
  ];
  const policy = `Trust in force: trust.require = "${require}", trust.threshold = ${threshold}\n`;
  const table = rows.length === 0 ? 'No key is trusted.\n' : formatTable(['KEY', 'KEY ID', 'STATE', ''], rows, layout);
  return `${policy}${table}${trustLines({ roles, problems }, layout)}`;
}

/** Plain keys, and those of roles. */
export function allKeys({ keys, roles = [] }: Pick<TrustReport, 'keys' | 'roles'>) {
  return [
    ...keys.map((key) => ({ ...key, state: 'trusted' })),
    ...roles.flatMap((role) => role.keys.map((key) => ({ ...key, state: `in role ${role.name}` }))),
  ];
}

/** The roles, and what is wrong with keys. */
export function trustLines({ roles = [], problems }: Pick<TrustReport, 'roles' | 'problems'>, layout: Layout): string {
  const lines = [...roles.map(roleText), ...problems].map((line) => `${oneLine(line)}\n`);
  return wrapLines(lines.join(''), layout.columns, 4);
}

function roleText({
  name,
  threshold,
  streams,
  repositories,
  mayRotate,
  mayKeepForLife,
  maxBytes,
}: NonNullable<TrustReport['roles']>[number]): string {
  const where = repositories.length === 0 ? 'for no image at all' : `for images below ${repositories.join(', ')}`;
  const rotation = mayRotate ? 'may bring and revoke keys of the role' : 'may not change keys';
  const share = maxBytes === undefined ? 'any share of the disk' : `at most ${formatBytes(maxBytes)} of the disk`;
  const life = mayKeepForLife ? '; may keep releases for life' : '';
  return `Role ${name}: ${formatCount(threshold, 'key')} must sign; streams ${streams.join(', ')}, ${where}; ${rotation}; ${share}${life}`;
}

/** `writtenAt`: RFC 3339. `isFromBefore`: whether the machine was started since. */
interface StoredTime {
  readonly writtenAt: string;
  readonly isFromBefore: boolean;
}

export function storedHead({ writtenAt, isFromBefore }: StoredTime, { columns, hasColour }: Layout = {}): string {
  const boot = isFromBefore ? ', before the last boot' : '';
  const lines = wrapLines(`The daemon does not run. This is the state of ${writtenAt}${boot}.`, columns, 4).split('\n');
  return lines.map((line) => `${paint(line, 'bad', hasColour)}\n`).join('');
}

/** While the daemon does not run, there is no bar and no remaining time. */
export function renderStoredStatus(report: StatusReport, time: StoredTime, layout: Layout = {}): string {
  const progress = { doneBytes: 0, totalBytes: 0 };
  return `${storedHead(time, layout)}${renderStatus({ ...report, progress }, layout)}`;
}

const LABELS: Readonly<Record<string, string>> = {
  bundleId: 'digest',
  hold: 'held for',
  signedBy: 'signed by',
  signerKeyIds: 'key ids',
  sizeBytes: 'size',
  adoptedAt: 'adopted',
  readyAt: 'ready',
  activatedAt: 'activated',
  soakEndsAt: 'soak ends',
  rollOut: 'in the order',
  runs: 'running',
  rolledBack: 'rolled back',
};

function codedText({ code, message }: ShownReason): string {
  return `${shortCode(code)} ${message}`;
}

const WORDS: Readonly<Record<string, (value: never) => string>> = {
  reason: codedText,
  degraded: codedText,
  images: imagesText,
  artifacts: ({ total, present }: NonNullable<BundleReport['artifacts']>) => `${present} of ${total} present`,
  sizeBytes: (bytes: number) => formatBytes(bytes),
  cancelled: ({ at }: NonNullable<BundleReport['cancelled']>) => `on ${at}`,
  rollOut: ({ begun, reads }: NonNullable<BundleReport['rollOut']>) =>
    begun === true ? 'begun' : reads === undefined ? '' : 'waits for its turn',
  advisories: (advisories: readonly Advisory[]) => advisories.map(advisoryText).join('; '),
};

/** The label and text of each member. Empty members are left out. */
export function shownMembers(members: Readonly<Record<string, unknown>>): readonly (readonly [string, string])[] {
  return Object.entries(members).flatMap(([name, value]) => {
    const text = WORDS[name]?.(value as never) ?? plainWords(value);
    return text === '' ? [] : [[LABELS[name] ?? name, text] as const];
  });
}

function plainWords(value: unknown): string {
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  return Array.isArray(value) ? value.join(', ') : String(value);
}

function imagesText({ total, present, pinned }: RecordedBundle['images']): string {
  return present === undefined ? String(total) : `${present} of ${total} present, ${pinned} pinned`;
}

function advisoryText({ version, reason, ...advice }: Advisory): string {
  return `${version}: ${adviceKinds(advice, 'a ') || 'an earlier advisory is withdrawn'} (${reason})`;
}

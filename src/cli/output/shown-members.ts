import type { Advisory } from '../../domain/model/bundle.ts';
import type { BundleReport } from '../../domain/report/parts/bundle-report.ts';
import type { RecordedBundle } from '../../domain/report/parts/recorded-report.ts';
import type { ShownReason } from '../../domain/report/reasons/reason-text.ts';
import { formatBytes } from '../../platform/sizes.ts';

/** What the members are called whose name is not a word. */
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
  runs: 'running',
};

/** How the members are said that are not a text. */
const WORDS: Readonly<Record<string, (value: never) => string>> = {
  reason: ({ message }: ShownReason) => message,
  degraded: ({ message }: ShownReason) => message,
  images: imagesText,
  sizeBytes: (bytes: number) => formatBytes(bytes),
  cancelled: ({ at }: NonNullable<BundleReport['cancelled']>) => `on ${at}`,
  advisories: (advisories: readonly Advisory[]) => advisories.map(advisoryText).join('; '),
};

/**
 * The members of a bundle for people: what each is called, and its value. Empty ones are left out.
 */
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

function advisoryText({ version, deadend, barrier, reason }: Advisory): string {
  const kinds = [...(deadend === true ? ['a dead end'] : []), ...(barrier === true ? ['a barrier'] : [])];
  const what = kinds.length === 0 ? 'an earlier advisory is withdrawn' : kinds.join(' and ');
  return `${version}: ${what} (${reason})`;
}

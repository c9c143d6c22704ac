import type { ReleaseStatus } from '../../domain/fleet/node-status.ts';
import { bundleTitle } from '../../domain/model/bundle.ts';
import type { Phase } from '../../domain/model/condition.ts';
import { withShortDigests } from '../../domain/report/names.ts';
import { digestOf } from '../../platform/digest.ts';
import { cutAtWord, oneLine, sentence } from '../../platform/plain-text.ts';
import { formatBytes, formatCount } from '../../platform/sizes.ts';
import { releaseStatusesOf, shortBundle, stickWanted } from './node-status.ts';
import type { OwnBundle, OwnReport } from './own-report.ts';

/** In the order of a release's life. */
export const EVENT_REASONS = [
  'BundleFound',
  'BundleRejected',
  'StickWanted',
  'PreloadBegun',
  'ReleaseReady',
  'ReleaseActivated',
  'ReleaseProven',
  'ReleaseRolledBack',
  'ReleaseDegraded',
  'RollOutPaused',
  'RollOutResumed',
] as const;

export interface NodeEvent {
  readonly type: 'Normal' | 'Warning';
  readonly reason: (typeof EVENT_REASONS)[number];
  /** At most 1024 bytes, a limit of the API. */
  readonly message: string;
  /** 16 hex digits, the same for the same occurrence, also after a restart. */
  readonly id: string;
}

export interface Reported {
  /** Undefined on a node that never reported. */
  readonly releases: readonly ReleaseStatus[] | undefined;
  /**
   * Events about earlier trouble; undefined after a restart, when only the Node shows what was
   * reported.
   */
  readonly troubleIds: ReadonlySet<string> | undefined;
}

const MESSAGE_CHARACTERS = 1_000;
const BEFORE_READY: readonly (Phase | undefined)[] = [
  undefined,
  'detected',
  'rejected',
  'held',
  'preloading',
  'retired',
];
const BEFORE_ACTIVATED: readonly (Phase | undefined)[] = [...BEFORE_READY, 'ready', 'superseded'];
/**
 * What happened since the last report. A node that never reported begins with what needs a person:
 * its journal has the rest.
 */
export function eventsOf(reported: Reported, report: OwnReport): readonly NodeEvent[] {
  const before = new Map(reported.releases?.map((release) => [release.bundle, release]));
  const isFirst = reported.releases === undefined;
  const now = new Map(releaseStatusesOf(report).map((release) => [release.bundle, release]));
  const life = report.bundles.flatMap((bundle) =>
    isFirst || !now.has(shortBundle(bundle)) ? [] : lifecycleEvents(before.get(shortBundle(bundle))?.phase, bundle),
  );
  const troubles = report.bundles.flatMap((bundle) => {
    const is = now.get(shortBundle(bundle));
    const was = before.get(shortBundle(bundle));
    const isKnown = reported.troubleIds === undefined && was?.phase === is?.phase && was?.reason === is?.reason;
    return is === undefined || isKnown ? [] : troubleEvents(bundle);
  });
  const standing = [...rejectionEvents(report), ...wantedEvents(report), ...pauseEvents(report), ...troubles];
  return [...standing.filter(({ id }) => reported.troubleIds?.has(id) !== true), ...life];
}

export function reportedAfter(report: OwnReport): Reported {
  const standing = [
    ...rejectionEvents(report),
    ...wantedEvents(report),
    ...pauseEvents(report),
    ...report.bundles.flatMap(troubleEvents),
  ];
  return { releases: releaseStatusesOf(report), troubleIds: new Set(standing.map(({ id }) => id)) };
}

function rejectionEvents({ rejected }: OwnReport): NodeEvent[] {
  return rejected.map(({ medium, path, reason }) =>
    event('Warning', 'BundleRejected', `${path} on ${medium} was rejected: ${reason.message}`, path, reason.message),
  );
}

function wantedEvents({ wanted }: OwnReport): NodeEvent[] {
  return wanted.map(({ name, version, message }) => event('Warning', 'StickWanted', message, name, version));
}

/** Each node makes events about its own pauses only. */
function pauseEvents({ pauses }: OwnReport): NodeEvent[] {
  return pauses.flatMap((one) => {
    const { id, name, version, by, why, until, lifted, from, liftedFrom } = one;
    const what = `roll-out of ${version === undefined ? name : `${name} ${version}`}`;
    const text = `The ${what} is paused until ${until} by ${by}: ${why}. 'stickpin fleet resume ${id}' on this node or one of the control plane ends the pause`;
    const pauseEvents = from === undefined ? [event('Warning', 'RollOutPaused', text, id)] : [];
    if (lifted === undefined || liftedFrom !== undefined) return pauseEvents;
    return [
      ...pauseEvents,
      event('Normal', 'RollOutResumed', `The ${what} goes on: ${lifted.by} lifted pause ${id}`, id),
    ];
  });
}

function lifecycleEvents(was: Phase | undefined, bundle: OwnBundle): NodeEvent[] {
  const { phase, bundleId, media, signedBy, images, sizeBytes, activatedAt = '' } = bundle;
  const title = bundleTitle(bundle);
  const normal = (reason: NodeEvent['reason'], message: string, ...occurrence: readonly string[]) =>
    event('Normal', reason, message, bundleId, ...occurrence);
  const events: NodeEvent[] = [];
  const where = media.length === 0 ? '' : ` on ${media.join(', ')}`;
  const isNew = was === undefined && phase !== 'retired' && phase !== 'superseded';
  if (isNew) {
    const signers = signedBy.length === 0 ? 'no trusted key signed it' : `signed by ${signedBy.join(', ')}`;
    events.push(normal('BundleFound', `${title} was found${where}: ${signers}`));
  }
  if (phase === 'preloading' && was !== 'preloading') {
    const size = `${formatCount(images.total, 'image')}, ${formatBytes(sizeBytes)}`;
    events.push(normal('PreloadBegun', `The preload of ${title} has begun: ${size}`));
  }
  if (phase === 'ready' && BEFORE_READY.includes(was)) {
    events.push(
      normal('ReleaseReady', `${title} is ready: all ${formatCount(images.total, 'image')} are present and pinned`),
    );
  }
  const isActivated = phase === 'activated' || phase === 'active' || phase === 'proven';
  if (isActivated && BEFORE_ACTIVATED.includes(was)) {
    events.push(normal('ReleaseActivated', `${title} is activated: its tags name its images`, activatedAt));
  }
  if (phase === 'proven' && was !== 'proven' && was !== 'superseded') {
    events.push(normal('ReleaseProven', `${title} is proven: it is the last known good release`, activatedAt));
  }
  return events;
}

function troubleEvents(bundle: OwnBundle): NodeEvent[] {
  const { reason, bundleId, conditions, activatedAt = '' } = bundle;
  const title = bundleTitle(bundle);
  const warning = (name: NodeEvent['reason'], message: string, ...occurrence: readonly string[]) => [
    event('Warning', name, message, bundleId, ...occurrence),
  ];
  if (reason?.code === 'engine/rolled-back') {
    return warning('ReleaseRolledBack', sentence(reason.message), activatedAt);
  }
  const stick = stickWanted(bundle);
  if (stick !== undefined) return warning('StickWanted', stick.message, stick.code);
  const degraded = conditions.find(({ type, status }) => type === 'Degraded' && status === 'True');
  if (degraded === undefined) return [];
  return warning('ReleaseDegraded', `${title} is degraded: ${degraded.message}`, degraded.reason);
}

function event(
  type: NodeEvent['type'],
  reason: NodeEvent['reason'],
  message: string,
  ...occurrence: readonly string[]
): NodeEvent {
  const id = digestOf([reason, ...occurrence].join('\n')).slice('sha256:'.length, 'sha256:'.length + 16);
  return { type, reason, message: withinBytes(withShortDigests(oneLine(message))), id };
}

function withinBytes(message: string): string {
  let text = cutAtWord(message, MESSAGE_CHARACTERS);
  while (Buffer.byteLength(text) > MESSAGE_CHARACTERS) text = cutAtWord(text, Math.floor(text.length * 0.9));
  return text;
}

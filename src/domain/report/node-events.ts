import { defined } from '../../platform/defined.ts';
import { isDigest } from '../model/digest.ts';
import type { Medium } from '../model/medium.ts';
import type { NodeHook } from '../settings/hook-units.ts';
import type { NodeEvent, NodeEvents } from '../state/hook.ts';
import { doesAbout, shortCode } from './codes.ts';
import type { Snapshot } from './snapshot.ts';
import { sticksInUse } from './status/stick-use.ts';
import type { BundleReport, StatusReport } from './status-schema.ts';

/** An event of the whole node has this key: it begins and ends, and there is only one. */
const NODE = 'node';

/**
 * Returns the lasting events of the node's hooks. Nothing is known until the media that were
 * plugged in at the start are read, nor about releases while the runtime does not answer: earlier
 * events would seem to end and begin again.
 */
export function nodeEvents({ observed, memory }: Snapshot, report: StatusReport): NodeEvents {
  if (memory.areMediaUnread) return new Map();
  const plugged = observed.media.filter(({ isDropFolder, peer }) => !isDropFolder && peer === undefined);
  const keyOf = ({ mediumId }: Medium) => `${observed.boot.bootId} ${mediumId}`;
  const events: NodeEvent[] = [
    ...plugged.map((medium) => ({ hook: 'plugged' as const, key: keyOf(medium), medium: medium.label })),
    ...(plugged.length === 0 ? [{ hook: 'removed' as const, key: NODE }] : []),
  ];
  const known: NodeHook[] = ['plugged', 'removed', 'failed'];
  events.push(...failureIn(report));
  if (report.runtime.reachable) {
    known.push('preloading', 'held', 'rejected', 'removable');
    events.push(
      ...report.bundles.flatMap(ofRelease),
      ...plugged.flatMap((medium) => rejectionOn(medium, keyOf(medium), report)),
      ...(report.advice.action === 'remove' ? sticksInUse(plugged) : []).map((medium) => ({
        hook: 'removable' as const,
        key: keyOf(medium),
        medium: medium.label,
      })),
    );
  }
  return new Map(known.map((hook) => [hook, events.filter((event) => event.hook === hook)]));
}

function ofRelease({ phase, bundleId, name, version, media, reason }: BundleReport): NodeEvent[] {
  if ((phase !== 'preloading' && phase !== 'held') || !isDigest(bundleId)) return [];
  if (phase === 'held' && reason?.code === 'media/reading') return [];
  const code = phase === 'held' ? reason && shortCode(reason.code) : undefined;
  const key = code === undefined ? bundleId : `${bundleId} ${code}`;
  return [defined({ hook: phase, key, medium: media.at(-1), code, release: { bundleId, name, version } })];
}

function failureIn({ advice: { action, afterwards = action, code } }: StatusReport): NodeEvent[] {
  return afterwards === 'call-support' ? [defined({ hook: 'failed' as const, key: code ?? NODE, code })] : [];
}

/** Returns one event for each stick. The name of a rejected bundle can't be trusted. */
function rejectionOn({ label, state }: Medium, key: string, { rejected }: StatusReport): NodeEvent[] {
  const unreadable = state.kind === 'failed' ? state.reason.code : undefined;
  // A decision of an administrator is no event.
  const refused = rejected.find(({ medium, reason }) => medium === label && doesAbout(reason.code) !== 'decided');
  const code = unreadable ?? refused?.reason.code;
  return code === undefined ? [] : [{ hook: 'rejected', key, medium: label, code: shortCode(code) }];
}

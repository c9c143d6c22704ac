import { defined } from '../../../platform/defined.ts';
import { capital, oneLine } from '../../../platform/plain-text.ts';
import type { BundleAssessment } from '../../assess/assess-bundle.ts';
import { bundleInWork } from '../../decide/release-effects.ts';
import { bundleName } from '../../model/bundle.ts';
import type { Reason } from '../../model/reason.ts';
import { bundlesIn } from '../../state/state.ts';
import { isForPerson } from '../actions.ts';
import { ADMIN_CODES, shortCode } from '../codes.ts';
import { holdMessage, isAwaited, shownHolds } from '../hold-text.ts';
import { type Line, needText } from '../line.ts';
import { isOtherNode, withCommands, withShortDigests } from '../names.ts';
import { noBundleLine } from '../reasons/node-lines.ts';
import { doesFor, reasonText } from '../reasons/reason-text.ts';
import type { Snapshot } from '../snapshot.ts';
import type { StatusReport } from '../status-schema.ts';
import { blockedLine, doesOf, isPassedOver, readyLine, withoutOutdated } from './bundle-lines.ts';
import type { Progress } from './media-line.ts';
import { failingLines, isEmptyStick, nodeLines, unreadableLine } from './status-line.ts';
import { workLine } from './work-line.ts';

type NeedReport = StatusReport['needsPerson'][number];

/** Returns all needs that only a person ends, the most important first. */
export function personNeeds(snapshot: Snapshot, progress: Progress): readonly NeedReport[] {
  const { observed, assessment } = snapshot;
  const { bundles, rejections } = assessment;
  const blocked = blockedLine(snapshot);
  const { blobMedia = [], media: carriers = [] } = bundleInWork(snapshot.memory, assessment) ?? {};
  // Blobs of another bundle on the stick are read, so no other stick is needed now.
  const isUsed = (label: string) => blobMedia.includes(label) && !carriers.includes(label);
  const nodes = new Set(observed.media.filter(isOtherNode).map(({ mediumId }) => mediumId));
  const lines = [
    workLine(snapshot, progress),
    blocked,
    ...observed.media.map(unreadableLine),
    ...observed.media.filter(isEmptyStick).map(noBundleLine),
    ...nodeLines(snapshot),
    ...failingLines(snapshot),
  ];
  const all = [
    ...lines.flatMap((line) => (line === undefined ? [] : needOfLine(line))),
    ...withoutOutdated(bundles)
      .filter((entry) => !isPassedOver(entry, bundles) && (!blocked || entry.reason?.code !== blocked.code))
      .flatMap((entry) => needOfBundle(entry, bundles)),
    ...rejections
      .filter(({ reason, label }) => isForPerson(doesFor(reason)) && !isUsed(label))
      .filter(({ mediumId }) => !nodes.has(mediumId))
      .map(({ reason, name }) => needOf(reason, name)),
  ];
  return eachOnce(all);
}

/** Returns waits that only an administrator ends: nobody else is called. */
export function adminWaits({ assessment: { bundles, awaiting } }: Snapshot): readonly NeedReport[] {
  const waiting = bundles.filter((entry) => !isPassedOver(entry, bundles));
  return eachOnce([
    ...waiting.flatMap((entry) => {
      const name = bundleName(entry.bundle.payload);
      if (entry.reason !== undefined) return ADMIN_CODES.has(entry.reason.code) ? [needOf(entry.reason, name)] : [];
      if (!isAwaited(entry)) return [];
      const line = readyLine(entry, bundles);
      const { does, code = 'engine/manual' } = line;
      if (does === 'done-admin') return [{ code: shortCode(code), message: needText(line), bundle: name }];
      const hold = shownHolds(entry).find((one) => ADMIN_CODES.has(one.code));
      return hold === undefined ? [] : [needOf({ code: hold.code, message: capital(holdMessage(hold)) }, name)];
    }),
    ...awaiting.map(({ reason, bundle }) => needOf(reason, bundle && bundleName(bundle.payload))),
  ]);
}

function eachOnce(all: readonly NeedReport[]): readonly NeedReport[] {
  const keys = all.map((need) => JSON.stringify(need));
  return all.filter((_, at) => keys.indexOf(keys[at] ?? '') === at);
}

function needOf(reason: Reason, bundle: string | undefined): NeedReport {
  return defined({ code: shortCode(reason.code), message: withShortDigests(oneLine(reasonText(reason))), bundle });
}

function needOfLine(line: Line, bundle?: string): readonly NeedReport[] {
  if (line.code === undefined || !isForPerson(line.does)) return [];
  return [defined({ code: shortCode(line.code), message: needText(line), bundle })];
}

function needOfBundle(entry: BundleAssessment, bundles: readonly BundleAssessment[]): readonly NeedReport[] {
  const name = bundleName(entry.bundle.payload);
  const reason = entry.reason ?? entry.trouble;
  if (reason === undefined) return isAwaited(entry) ? needOfLine(readyLine(entry, bundles), name) : [];
  if (!isForPerson(doesOf(entry, reason))) return [];
  const { message, ...need } = needOf(reason, name);
  return [{ ...need, message: withShortDigests(withCommands(message, entry.bundle, bundlesIn(bundles))) }];
}

import { bundleTitle } from '../../domain/model/bundle.ts';
import type { ConditionVerdict } from '../../domain/model/condition.ts';
import { clip, oneLine, sentence } from '../../platform/plain-text.ts';
import type { OwnBundle, OwnReport } from './own-report.ts';

/** The condition on the own Node. It is good when it is `True`. */
export type Health = ConditionVerdict<'StickpinHealthy'>;

/** Messages of conditions are shown in tables. */
const MESSAGE_CHARACTERS = 1_000;

/**
 * The condition for a report. It changes with what is wrong and with the phases of releases, not
 * with each image.
 *
 * @param report undefined while the daemon is silent
 */
export function healthOf(report: OwnReport | undefined): Health {
  if (report === undefined) {
    const message = "stickpin.service tells nothing on this node. Look at 'systemctl status stickpin'.";
    return health('Unknown', 'DaemonSilent', message);
  }
  const { runtime, bundles, stateProblems, wanted } = report;
  if (!runtime.reachable) {
    return health('False', 'RuntimeUnreachable', runtime.reason ?? 'the container runtime does not answer');
  }
  const degraded = bundles.flatMap((bundle) => {
    const verdict = bundle.conditions.find(({ type, status }) => type === 'Degraded' && status === 'True');
    return verdict === undefined ? [] : [`${bundleTitle(bundle)}: ${verdict.message}`];
  });
  if (degraded.length > 0) return health('False', 'ReleaseDegraded', degraded.join('; '));
  if (stateProblems.length > 0) {
    return health('False', 'StateDamaged', stateProblems.map(({ message }) => message).join('; '));
  }
  const streams = new Set(bundles.filter(({ phase }) => phase !== 'retired').map(({ name }) => name));
  const sticks = [
    ...bundles.flatMap((bundle) => stickWanted(bundle) ?? []),
    // A stream that this node never had may not be meant for it.
    ...wanted.filter(({ name }) => streams.has(name)),
  ];
  if (sticks.length > 0) return health('False', 'StickWanted', sticks.map(({ message }) => message).join(' '));
  return health('True', 'AsExpected', summaryOf(report));
}

/** The daemon looks what is plugged in, or is in the queue of a node: nobody has to do anything. */
const LOOKING = ['media/looking', 'media/reading', 'media/peer-waited-for'];

/** Which stick a release needs to go on, as a code and a sentence; undefined when it needs none. */
export function stickWanted({ hold, reason }: OwnBundle): OwnBundle['reason'] {
  const isWaiting = hold === 'media' || hold === 'base' || reason?.code === 'engine/no-source';
  if (reason === undefined || !isWaiting || LOOKING.includes(reason.code)) return undefined;
  const place = reason.message.includes('any node') ? '' : ' A stick in any node of the cluster will do.';
  return { code: reason.code, message: `${sentence(reason.message)}${place}` };
}

function health(status: Health['status'], reason: string, message: string): Health {
  return { type: 'StickpinHealthy', status, reason, message: clip(oneLine(message), MESSAGE_CHARACTERS) };
}

function summaryOf({ bundles }: OwnReport): string {
  const shown = bundles.filter(({ name, phase }) => name !== '' && phase !== 'retired');
  if (shown.length === 0) return 'no release is known';
  const texts = shown.map((bundle) => `${bundleTitle(bundle)} is ${bundle.phase}`);
  return texts.sort().join(', ');
}

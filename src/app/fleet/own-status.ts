import { unwatchFile, watchFile } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { NodeStatus } from '../../domain/fleet/node-status.ts';
import { nodeStatusOf } from '../../fleet/publish/node-status.ts';
import { type OwnReport, parseOwnReport } from '../../fleet/publish/own-report.ts';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { shareRuns } from '../../platform/async/share-runs.ts';
import type { Log } from '../../platform/log.ts';
import { type Listeners, listen, notifyAll, type Unsubscribe } from '../../platform/subscription.ts';

/** What the daemon of this node last wrote about itself. */
export interface OwnStatus {
  /** Undefined until the daemon wrote something that can be read. */
  report(): OwnReport | undefined;
  /** The part of it that other nodes are told. */
  status(): NodeStatus | undefined;
  onChange(listener: () => void): Unsubscribe;
  stop(): void;
}

interface Followed {
  readonly file: string;
  readonly log: Log;
  readonly listeners: Listeners;
  text: string;
  report: OwnReport | undefined;
  status: NodeStatus | undefined;
  told?: string | undefined;
}

/**
 * How often the file is looked at, in milliseconds. A watch of a file that is replaced some times
 * within a millisecond, as during a preload, can be lost without a word.
 */
const LOOK_MS = 1_000;

/** Follows the `status.json` of the daemon. */
export async function followOwnStatus(file: string, log: Log): Promise<OwnStatus> {
  const own: Followed = { file, log, listeners: new Set(), text: '', report: undefined, status: undefined };
  const look = shareRuns(() => read(own));
  await look();
  const changed = () => void look().catch(() => undefined);
  watchFile(file, { interval: LOOK_MS, persistent: false }, changed);
  return {
    report: () => own.report,
    status: () => own.status,
    onChange: (listener) => listen(own.listeners, listener),
    stop: () => unwatchFile(file, changed),
  };
}

async function read(own: Followed): Promise<void> {
  const text = await readFile(own.file, 'utf8').catch((error: unknown) => {
    if (systemCodeOf(error) !== 'ENOENT') tell(own, reasonOf(error));
    return '';
  });
  if (text === '' || text === own.text) return;
  own.text = text;
  const parsed = parseOwnReport(text);
  if (parsed.kind === 'foreign') return tell(own, parsed.why);
  own.told = undefined;
  own.report = parsed.report;
  own.status = nodeStatusOf(parsed.report);
  notifyAll(own.listeners);
}

function tell(own: Followed, why: string): void {
  if (own.told !== why) own.log.warn({}, `${own.file} can't be used, so other nodes hear nothing new: ${why}`);
  own.told = why;
}

import { fork } from 'node:child_process';
import type { StatusReport } from '../../../../src/domain/report/status-schema.ts';
import { bundleIntoCache } from '../../bundles/bundle-program.ts';
import { endProcess } from '../../end-process.ts';
import { eventually } from '../../eventually.ts';
import { endTraced, ONE_THREAD } from '../../faults/system-calls.ts';
import type { MortalCommand, MortalOrder } from './order.ts';

/** A daemon of a process of its own. */
export interface MortalDaemon {
  /**
   * Resolves with the first report for which `isIt` holds, the last one or a later one; rejects
   * with its log when it ends before.
   */
  until(isIt: (report: StatusReport) => boolean, timeoutMs?: number): Promise<StatusReport>;
  tell(command: MortalCommand): void;
  /**
   * Resolves when it has killed itself; rejects with its log when it ended otherwise, or not within
   * `timeoutMs` (default 120 s).
   */
  died(timeoutMs?: number): Promise<void>;
  /** SIGKILL, and waits for its end. Safe to call twice. */
  kill(): Promise<void>;
  /** SIGTERM, and waits for its end. */
  stop(): Promise<void>;
  hasEnded(): boolean;
  log(): string;
}

let bundled: Promise<string> | undefined;

/**
 * Starts one; it is bundled as the product is, once a test process. @param around strace(1),
 * see `traced()`
 */
export async function startMortalDaemon(order: MortalOrder, around: readonly string[] = []): Promise<MortalDaemon> {
  bundled ??= bundleIntoCache('test/support/daemon/mortal-daemon/main.ts', 'mortal-daemon');
  const [execPath = process.execPath, ...execArgv] = around;
  const child = fork(await bundled, [JSON.stringify(order)], {
    ...{ stdio: ['ignore', 'pipe', 'pipe', 'ipc'], execPath, execArgv: [...execArgv] },
    ...(around.length > 0 && { env: { ...process.env, ...ONE_THREAD } }),
  });
  const end = around.length === 0 ? endProcess : endTraced;
  const log: string[] = [];
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk) => log.push(String(chunk)));
  let latest: StatusReport | undefined;
  child.on('message', (report) => {
    latest = report as StatusReport;
  });
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
  const wrong = (what: string) => new Error(`${what}; last status: ${latest?.status}\n${log.join('')}`);
  return {
    until: async (isIt, timeoutMs = 120_000) => {
      const look = () => {
        if (latest !== undefined && isIt(latest)) return latest;
        throw wrong('the daemon is not there yet');
      };
      return eventually(() => (hasEnded() ? Promise.resolve(undefined) : look()), timeoutMs).then((report) => {
        if (report === undefined) throw wrong(`the daemon ended with ${child.exitCode ?? child.signalCode}`);
        return report;
      });
    },
    tell: (command) => void child.send(command),
    died: async (timeoutMs = 120_000) => {
      await eventually(() => {
        if (!hasEnded()) throw wrong('the daemon did not get there');
      }, timeoutMs);
      if (child.signalCode !== 'SIGKILL') throw wrong(`the daemon ended with ${child.exitCode ?? child.signalCode}`);
    },
    kill: () => end(child, 'SIGKILL'),
    stop: () => end(child, 'SIGTERM'),
    hasEnded,
    log: () => log.join(''),
  };
}

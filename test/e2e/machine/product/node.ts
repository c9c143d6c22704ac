import { MANAGER, OBJECT_PATH, SERVICE } from '../../../../src/api/contract.ts';
import type { Phase } from '../../../../src/domain/model/condition.ts';
import type { StatusReport } from '../../../../src/domain/report/status-schema.ts';
import { REPORT_CALLS, reportOfBusctl } from '../../../support/bus/busctl-report.ts';
import type { Machine } from '../machine.ts';
import { guestNodePath } from './guest-node.ts';

/** stickpin on a machine, as its user sees it. */
export interface StickpinNode {
  /**
   * What `stickpin status --json` prints, asked for over D-Bus: a start of Node takes seconds under
   * emulation.
   */
  report(): Promise<StatusReport>;
  /** What `stickpin rescan` does, over D-Bus for the same reason. */
  rescan(): Promise<void>;
  /** The text of STATUS= as `systemctl status` shows it. */
  statusText(): Promise<string>;
  /**
   * Resolves with the first report for which `isIt` holds; the error shows the last STATUS line.
   * It asks for one when `/run/stickpin/status.json`, which costs the guest nothing, says that it
   * holds, and each half minute.
   */
  until(what: string, isIt: (report: StatusReport) => boolean): Promise<StatusReport>;
  /**
   * Until a release, default the first one, has this phase, and so many images, all present and
   * pinned, at rest. While a runtime does not answer, no image counts as present.
   */
  untilPinned(phase: Phase, images: number, bundleId?: string): Promise<StatusReport>;
  /** Messages of the service in this boot, oldest first, as fields. */
  journal(): Promise<readonly Readonly<Record<string, string>>[]>;
}

/**
 * A report costs the guest up to four seconds of its processor, which what is waited for lacks. The
 * published status is as of the daemon's last round, at most half a minute ago, and stays when the
 * daemon ends.
 */
const pausesMs = {
  /** From one report to the next while the published status says that it isn't so yet. */
  doubted: 30_000,
  /** The same while it says that it is: the daemon may be starting. */
  believed: 2_000,
};

/** The service on `machine`, which has been installed there. */
export function stickpinOn(machine: () => Machine): StickpinNode {
  const report = async (): Promise<StatusReport> => {
    const [manager = '', managed = ''] = (
      await machine().output(REPORT_CALLS.map((args) => `busctl ${args.join(' ')}`).join(' && '))
    ).split('\n');
    return reportOfBusctl(manager, managed);
  };
  const published = async (): Promise<StatusReport | undefined> => {
    const file = machine().getFile('/run/stickpin/status.json');
    return file.then(
      (bytes) => JSON.parse(bytes.toString()) as StatusReport,
      () => undefined,
    );
  };
  const node: StickpinNode = {
    report: () => machine().until('a report', report),
    rescan: async () => {
      await machine().untilOutput('the rescan', `busctl call ${SERVICE} ${OBJECT_PATH} ${MANAGER} Rescan`);
    },
    statusText: () => machine().output('systemctl show --property=StatusText --value stickpin'),
    until: async (what, isIt) => {
      let last = 'no report';
      let next = { whenBelieved: 0, whenDoubted: performance.now() + pausesMs.doubted };
      const probe = async (): Promise<StatusReport | false> => {
        const seen = await published();
        last = seen === undefined ? last : inShort(seen);
        const isBelieved = seen !== undefined && isIt(seen);
        const now = performance.now();
        if (now < (isBelieved ? next.whenBelieved : next.whenDoubted)) return false;
        next = { whenBelieved: now + pausesMs.believed, whenDoubted: now + pausesMs.doubted };
        const current = await report();
        last = inShort(current);
        return isIt(current) && current;
      };
      try {
        return await machine().until(what, probe);
      } catch (error) {
        throw new Error(`${what}: not so; last: ${last}`, { cause: error });
      }
    },
    untilPinned: (phase, images, bundleId) =>
      node.until(`${bundleId ?? 'the release'} to be ${phase} and pinned`, ({ runtime, operation, bundles }) => {
        const entry = bundles.find((one) => one.bundleId === (bundleId ?? one.bundleId));
        const { total, present, pinned } = entry?.images ?? {};
        const isWhole = total === images && present === total && pinned === total;
        return runtime.reachable && operation === 'idle' && entry?.phase === phase && isWhole;
      }),
    journal: () => machine().until('the journal of stickpin to be read', () => readJournal(machine())),
  };
  return node;
}

/** What most tests wait for. */
function inShort({ status, operation, runtime, bundles }: StatusReport): string {
  const entries = bundles.map(({ version, phase, images, activationHolds = [] }) => {
    const holds = activationHolds.map(({ code }) => code);
    return `${version} ${phase} ${JSON.stringify({ ...images, holds })}`;
  });
  return `STATUS "${status}", ${operation}, ${JSON.stringify({ runtime })}, ${entries.join(', ')}`;
}

/**
 * The messages of stickpin's service, which has logged some. `journalctl` was seen to end with 0
 * and no message all the same; why is not known. Then this throws, with what it said.
 */
async function readJournal(machine: Machine): Promise<readonly Record<string, string>[]> {
  const read = await machine.run('journalctl --boot --unit=stickpin --output=json --no-pager');
  const lines = read.stdout.split('\n').filter((line) => line !== '');
  if (read.exitCode !== 0 || lines.length === 0) {
    throw new Error(`journalctl ended with ${read.exitCode} and ${lines.length} messages: ${read.stderr}`);
  }
  return lines.map((line) => JSON.parse(line) as Record<string, string>);
}

/**
 * The configuration that CRI-O works by, as TOML (docs/runtime-facts.md, fact 6). Right after its
 * start it is what it has read then.
 */
export function crioConfiguration(machine: Machine): Promise<string> {
  return machine.untilOutput(
    'the configuration of CRI-O',
    `${guestNodePath} -e '
      require("node:http").get({ socketPath: "/var/run/crio/crio.sock", path: "/config" }, (r) => r.pipe(process.stdout))'`,
  );
}

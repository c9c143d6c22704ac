import { dirname, join } from 'node:path';
import { lastingStatus } from '../../domain/report/snapshot.ts';
import { JSON_SCHEMA_VERSION, type StatusReport } from '../../domain/report/status-schema.ts';
import { keepUnclaimedLines, unsetVariables } from '../../domain/report/texts/images-env.ts';
import { reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { writeDurably } from '../../runtime/config/config-file.ts';

/**
 * What other programs of the node read, each file replaced as a whole, and only when its content
 * changed.
 */
export interface PublishedFiles {
  /**
   * Takes what holds now; called in every round. Never throws; what can't be written is logged once
   * and tried again, at the latest in the first round after {@link RETRY_MS}.
   */
  publish(now: { readonly imagesEnv: string; readonly report: StatusReport }): void;
  /** Waits until what was published last is on disk. */
  settled(): Promise<void>;
}

export interface PublishedFilesOptions {
  readonly stateDirectory: string;
  readonly runDirectory: string;
  /** The machine's boot id (random(4)). */
  readonly bootId: string;
  /** GOARCH of this node. */
  readonly arch: string;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  readonly log: Log;
  /**
   * What `images.env` in the state directory held when the daemon started; empty when there was
   * none.
   */
  readonly imagesEnvBefore: string;
}

interface PublishedFile {
  wanted: string;
  /** What is on disk; undefined while that is not known. */
  written?: string | undefined;
  /** The last try, if it failed. */
  failure?: { readonly text: string; readonly reason: string; readonly at: number } | undefined;
}

/**
 * Pause before a text that could not be written is tried again, in milliseconds. A new text is
 * tried at once.
 */
const RETRY_MS = 5_000;

/**
 * `images.env` is left as it is while the runtime does not answer: whether its lines belong to a
 * release whose records are lost is not known then. Lines of unclaimed pins stay in it.
 *
 * `images.env` and `status.json`, both in the run directory, and in the state directory for after a
 * boot. `status.json` is the report with `writtenAt` (RFC 3339) and `bootId`, so that a reader can
 * recognise a copy from before the boot, and with `arch`, which the fleet process sends to other
 * nodes. The
 * one in the state directory is written when something changed that means something after a boot:
 * see {@link lastingStatus}.
 */
export function createPublishedFiles(options: PublishedFilesOptions): PublishedFiles {
  const { stateDirectory, runDirectory, bootId, arch, clock, log, imagesEnvBefore } = options;
  const keptStatus = join(stateDirectory, 'status.json');
  const files = new Map<string, PublishedFile>();
  let writing: Promise<void> | undefined;
  let [publishedText, lasting] = ['', ''];
  let unset: readonly string[] = [];

  const isDue = ({ wanted, written, failure }: PublishedFile) =>
    wanted !== written && (failure?.text !== wanted || clock.monotonic() - failure.at >= RETRY_MS);

  async function writeAll(): Promise<void> {
    for (;;) {
      const next = [...files].find(([, file]) => isDue(file));
      if (next === undefined) return;
      const [path, file] = next;
      const text = file.wanted;
      try {
        await writeDurably({ path, isVolatile: dirname(path) === runDirectory }, text);
        file.written = text;
        file.failure = undefined;
      } catch (error) {
        const reason = reasonOf(error);
        if (reason !== file.failure?.reason) log.warn({ err: error }, reason);
        // A failed write may have replaced the file and not reached the disk.
        file.written = undefined;
        file.failure = { text, reason, at: clock.monotonic() };
      }
    }
  }

  const want = (path: string, wanted: string) => {
    const file = files.get(path);
    if (file === undefined) files.set(path, { wanted });
    else file.wanted = wanted;
  };
  const wantStatus = (report: StatusReport) => {
    const text = JSON.stringify(report);
    if (text === publishedText) return;
    publishedText = text;
    const stamped = {
      schemaVersion: JSON_SCHEMA_VERSION,
      ...report,
      writtenAt: new Date(clock.now()).toISOString(),
      bootId,
      arch,
    };
    const wanted = `${JSON.stringify(stamped)}\n`;
    want(join(runDirectory, 'status.json'), wanted);
    const now = lastingStatus(report);
    if (now === lasting && files.get(keptStatus)?.failure === undefined) return;
    lasting = now;
    want(keptStatus, wanted);
  };
  return {
    publish: ({ imagesEnv, report }) => {
      if (report.runtime.reachable) {
        const unclaimed = report.unclaimed.flatMap(({ references }) => references);
        const text = keepUnclaimedLines(imagesEnv, imagesEnvBefore, unclaimed);
        want(join(stateDirectory, 'images.env'), text);
        want(join(runDirectory, 'images.env'), text);
        const now = unsetVariables(text);
        for (const line of now.filter((one) => !unset.includes(one))) log.warn({}, `images.env: ${line}`);
        unset = now;
      }
      wantStatus(report);
      writing ??= writeAll().finally(() => {
        writing = undefined;
      });
    },
    settled: async () => writing,
  };
}

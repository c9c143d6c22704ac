import { dirname, join } from 'node:path';
import { lastingStatus } from '../../domain/report/snapshot.ts';
import { JSON_SCHEMA_VERSION, type StatusReport } from '../../domain/report/status-schema.ts';
import { keepUnclaimedLines, unsetVariables } from '../../domain/report/texts/images-env.ts';
import { reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { writeDurably } from '../../runtime/config/config-file.ts';

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
 * What other programs of the node read, each file replaced as a whole, and only when its content
 * changed: `images.env` and `status.json`, both in the run directory, and in the state directory
 * for after a boot.
 *
 * `images.env` is left as it is while the runtime does not answer: whether its lines belong to a
 * release whose records are lost is not known then. Lines of unclaimed pins stay in it.
 * `status.json` is the report with `writtenAt` (RFC 3339) and `bootId`, so that a reader can
 * recognise a copy from before the boot, and with `arch`, which the fleet process sends to other
 * nodes. The one in the state directory is written when something changed that means something
 * after a boot: see {@link lastingStatus}.
 */
export class PublishedFiles {
  private readonly files = new Map<string, PublishedFile>();
  private writing: Promise<void> | undefined;
  private published = '';
  private lasting = '';
  private unset: readonly string[] = [];

  constructor(private readonly options: PublishedFilesOptions) {}

  /**
   * Takes what holds now; called in every round. Never throws; what can't be written is logged once
   * and tried again, at the latest in the first round after {@link RETRY_MS}.
   */
  publish({ imagesEnv, report }: { readonly imagesEnv: string; readonly report: StatusReport }): void {
    if (report.runtime.reachable) this.wantImages(imagesEnv, report);
    this.wantStatus(report);
    this.writing ??= this.writeAll().finally(() => {
      this.writing = undefined;
    });
  }

  /** Waits until what was published last is on disk. */
  async settled(): Promise<void> {
    await this.writing;
  }

  private wantImages(imagesEnv: string, report: StatusReport): void {
    const { stateDirectory, runDirectory, imagesEnvBefore, log } = this.options;
    const unclaimed = report.unclaimed.flatMap(({ references }) => references);
    const text = keepUnclaimedLines(imagesEnv, imagesEnvBefore, unclaimed);
    this.want(join(stateDirectory, 'images.env'), text);
    this.want(join(runDirectory, 'images.env'), text);
    const now = unsetVariables(text);
    for (const line of now.filter((one) => !this.unset.includes(one))) log.warn({}, `images.env: ${line}`);
    this.unset = now;
  }

  private wantStatus(report: StatusReport): void {
    const { stateDirectory, runDirectory, clock, bootId, arch } = this.options;
    const text = JSON.stringify(report);
    if (text === this.published) return;
    this.published = text;
    const writtenAt = new Date(clock.now()).toISOString();
    const wanted = `${JSON.stringify({ schemaVersion: JSON_SCHEMA_VERSION, ...report, writtenAt, bootId, arch })}\n`;
    this.want(join(runDirectory, 'status.json'), wanted);
    const kept = join(stateDirectory, 'status.json');
    const now = lastingStatus(report);
    if (now === this.lasting && this.files.get(kept)?.failure === undefined) return;
    this.lasting = now;
    this.want(kept, wanted);
  }

  private want(path: string, wanted: string): void {
    const file = this.files.get(path);
    if (file === undefined) this.files.set(path, { wanted });
    else file.wanted = wanted;
  }

  private async writeAll(): Promise<void> {
    const { runDirectory, clock, log } = this.options;
    for (;;) {
      const next = [...this.files].find(([, file]) => isDue(file, clock));
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
}

function isDue({ wanted, written, failure }: PublishedFile, clock: PublishedFilesOptions['clock']): boolean {
  return wanted !== written && (failure?.text !== wanted || clock.monotonic() - failure.at >= RETRY_MS);
}

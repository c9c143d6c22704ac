import type { CreateProgress, ProgressListener } from '../../../factory/progress.ts';
import { clip, oneLine } from '../../../platform/plain-text.ts';
import { formatBytes, formatBytesOf, formatDuration } from '../../../platform/sizes.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { barWithText } from '../../output/table.ts';

export interface ProgressPrinter {
  readonly onProgress: ProgressListener;
  /** Clears the bar, so that other lines can follow. Idempotent. */
  clear(): void;
}

const REPAINT_MS = 100;
const PLAIN_MS = 10_000;
const WORDS = {
  unpack: 'unpacked',
  copy: 'copied',
  pack: 'packed',
  write: 'written',
  verify: 'read back',
  push: 'sent',
  pull: 'pulled',
} as const;

/**
 * A progress bar if stderr is a terminal. Otherwise a line for each image that is fetched, and one
 * every ten seconds while layers are copied.
 */
export function createProgressPrinter(context: Terminal): ProgressPrinter {
  return context.stderrColumns === undefined
    ? new LinePrinter(context)
    : new BarPrinter(context, context.stderrColumns);
}

type Terminal = Pick<CommandContext, 'stderr' | 'stderrColumns' | 'now'>;

class BarPrinter implements ProgressPrinter {
  private readonly pace: Pace;
  private paintedAt: number | undefined;
  private painted = '';

  constructor(
    private readonly context: Terminal,
    private readonly columns: number,
  ) {
    this.pace = new Pace(context.now);
  }

  readonly onProgress = (progress: CreateProgress): void => {
    const { stderr, now } = this.context;
    // The last column stays free, because some terminals wrap there.
    const width = Math.max(1, this.columns - 1);
    const text =
      progress.kind === 'fetch' ? fetchBar(progress, width) : copyBar(progress, this.pace.of(progress), width);
    const isFinal = progress.kind !== 'fetch' && progress.doneBytes === progress.totalBytes;
    if (this.paintedAt !== undefined && now() - this.paintedAt < REPAINT_MS && !isFinal) return;
    this.paintedAt = now();
    const line = clip(text, width);
    if (line !== this.painted) stderr(`\r${line}\u001b[K`);
    this.painted = line;
  };

  readonly clear = (): void => {
    if (this.painted !== '') this.context.stderr('\r\u001b[K');
    this.painted = '';
  };
}

class LinePrinter implements ProgressPrinter {
  private readonly pace: Pace;
  private fetching = '';
  private printedAt: number | undefined;

  constructor(private readonly context: Terminal) {
    this.pace = new Pace(context.now);
  }

  readonly onProgress = (progress: CreateProgress): void => {
    const { stderr, now } = this.context;
    if (progress.kind === 'fetch') {
      const line = `fetching ${progress.position} of ${progress.total}: ${oneLine(progress.image)}\n`;
      if (line !== this.fetching) stderr(line);
      this.fetching = line;
      return;
    }
    const pace = this.pace.of(progress);
    this.printedAt ??= now();
    if (now() - this.printedAt < PLAIN_MS) return;
    this.printedAt = now();
    const { kind, doneBytes, totalBytes } = progress;
    stderr(`${WORDS[kind]} ${formatBytesOf(doneBytes, totalBytes)}${pace}\n`);
  };

  readonly clear = (): void => undefined;
}

function fetchBar(
  { image, position, total, bytes }: Extract<CreateProgress, { kind: 'fetch' }>,
  width: number,
): string {
  const so = bytes === 0 ? '' : `, ${formatBytes(bytes)}`;
  const text = `fetching ${position} of ${total}${so}`;
  const name = `  ${oneLine(image)}`;
  // A long name is cut at its end.
  const bar = barWithText((position - 1) / total, text, Math.max(1, width - Math.min(name.length, width / 3)));
  return `${bar}${name}`;
}

type CopyProgress = Exclude<CreateProgress, { kind: 'fetch' }>;

function copyBar({ kind, doneBytes, totalBytes }: CopyProgress, pace: string, width: number): string {
  const share = totalBytes === 0 ? 1 : doneBytes / totalBytes;
  return barWithText(share, `${WORDS[kind]} ${formatBytesOf(doneBytes, totalBytes)}${pace}`, width);
}

/** Measured from the start of the current stage. */
class Pace {
  private stage: CopyProgress['kind'] | undefined;
  private startedAt = 0;

  constructor(private readonly now: () => number) {}

  /** Returns an empty text in the first second of a stage. */
  of({ kind, doneBytes, totalBytes }: CopyProgress): string {
    if (this.stage !== kind) {
      this.stage = kind;
      this.startedAt = this.now();
    }
    const elapsedMs = this.now() - this.startedAt;
    if (elapsedMs < 1000 || doneBytes === 0) return '';
    const rate = `, ${formatBytes((doneBytes / elapsedMs) * 1000)}/s`;
    if (doneBytes >= totalBytes) return rate;
    const remainingMs = ((totalBytes - doneBytes) / doneBytes) * elapsedMs;
    return `${rate}, about ${formatDuration(remainingMs)} left`;
  }
}

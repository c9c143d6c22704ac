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
const WORDS = { unpack: 'unpacked', copy: 'copied', pack: 'packed', write: 'written', verify: 'read back' } as const;

/**
 * A progress bar if stderr is a terminal. Otherwise a line for each image that is fetched, and one
 * every ten seconds while layers are copied.
 */
export function createProgressPrinter(
  context: Pick<CommandContext, 'stderr' | 'stderrColumns' | 'now'>,
): ProgressPrinter {
  const columns = context.stderrColumns;
  return columns === undefined ? plainPrinter(context) : barPrinter(context, columns);
}

function barPrinter({ stderr, now }: Pick<CommandContext, 'stderr' | 'now'>, columns: number): ProgressPrinter {
  const pace = createPace(now);
  let paintedAt: number | undefined;
  let painted = '';
  return {
    onProgress: (progress) => {
      // The last column stays free, because some terminals wrap there.
      const width = Math.max(1, columns - 1);
      const text = progress.kind === 'fetch' ? fetchBar(progress, width) : copyBar(progress, pace(progress), width);
      const isFinal = progress.kind !== 'fetch' && progress.doneBytes === progress.totalBytes;
      if (paintedAt !== undefined && now() - paintedAt < REPAINT_MS && !isFinal) return;
      paintedAt = now();
      const line = clip(text, width);
      if (line !== painted) stderr(`\r${line}\u001b[K`);
      painted = line;
    },
    clear: () => {
      if (painted !== '') stderr('\r\u001b[K');
      painted = '';
    },
  };
}

function plainPrinter({ stderr, now }: Pick<CommandContext, 'stderr' | 'now'>): ProgressPrinter {
  const pace = createPace(now);
  let fetching = '';
  let printedAt: number | undefined;
  return {
    onProgress: (progress) => {
      if (progress.kind === 'fetch') {
        const line = `fetching ${progress.position} of ${progress.total}: ${oneLine(progress.image)}\n`;
        if (line !== fetching) stderr(line);
        fetching = line;
        return;
      }
      const rest = pace(progress);
      printedAt ??= now();
      if (now() - printedAt < PLAIN_MS) return;
      printedAt = now();
      const { kind, doneBytes, totalBytes } = progress;
      stderr(`${WORDS[kind]} ${formatBytesOf(doneBytes, totalBytes)}${rest}\n`);
    },
    clear: () => undefined,
  };
}

function fetchBar(
  { image, position, total, bytes }: Extract<CreateProgress, { kind: 'fetch' }>,
  width: number,
): string {
  const so = bytes === 0 ? '' : `, ${formatBytes(bytes)}`;
  const text = `fetching ${position} of ${total}${so}`;
  const name = `  ${oneLine(image)}`;
  // Of a long name the beginning is enough.
  const bar = barWithText((position - 1) / total, text, Math.max(1, width - Math.min(name.length, width / 3)));
  return `${bar}${name}`;
}

type CopyProgress = Exclude<CreateProgress, { kind: 'fetch' }>;

function copyBar({ kind, doneBytes, totalBytes }: CopyProgress, rest: string, width: number): string {
  const share = totalBytes === 0 ? 1 : doneBytes / totalBytes;
  return barWithText(share, `${WORDS[kind]} ${formatBytesOf(doneBytes, totalBytes)}${rest}`, width);
}

/** Measured from the start of the current stage. Empty in its first second. */
function createPace(now: () => number): (progress: CopyProgress) => string {
  let stage: CopyProgress['kind'] | undefined;
  let startedAt = 0;
  return ({ kind, doneBytes, totalBytes }) => {
    if (stage !== kind) {
      stage = kind;
      startedAt = now();
    }
    const elapsedMs = now() - startedAt;
    if (elapsedMs < 1000 || doneBytes === 0) return '';
    const rate = `, ${formatBytes((doneBytes / elapsedMs) * 1000)}/s`;
    if (doneBytes >= totalBytes) return rate;
    const left = ((totalBytes - doneBytes) / doneBytes) * elapsedMs;
    return `${rate}, about ${formatDuration(left)} left`;
  };
}

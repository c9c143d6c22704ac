import { type Command, Option } from 'commander';
import { WAIT_GOALS, type WaitGoal } from '../../../domain/fleet/turn.ts';
import { isDigest } from '../../../domain/model/digest.ts';
import { progressText } from '../../../domain/report/status/media-line.ts';
import type { StatusReport } from '../../../domain/report/status-schema.ts';
import { type Advance, type AwaitedRelease, advanceOf } from '../../../domain/report/wait-goal.ts';
import { AppError } from '../../../platform/app-error.ts';
import { withEither } from '../../../platform/async/abort.ts';
import { defined } from '../../../platform/defined.ts';
import { clip, oneLine, sentence } from '../../../platform/plain-text.ts';
import { cliError } from '../../context/cli-error.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { findShown } from '../../context/find-shown.ts';
import { followDaemon } from '../../context/follow-daemon.ts';
import { releaseOf, timeoutOf } from '../../context/option-values.ts';
import { jsonText, printStderrLine, wrapLines } from '../../output/text.ts';

interface WaitOptions {
  readonly for: WaitGoal;
  readonly timeout: string;
  readonly json?: true;
}

export function registerWait(program: Command, context: CommandContext): void {
  program
    .command('wait')
    .description('wait until this node has a release, whose stick may still come')
    .argument('<release>', 'NAME@VERSION, or the digest of the bundle')
    .addOption(new Option('--for <phase>', 'how far it has to be').choices([...WAIT_GOALS]).default('ready'))
    .option('--timeout <duration>', 'give up after this time, as "30 min"; 0 asks once', '1 h')
    .option('--json', 'print as JSON, also when it is not reached')
    .action((release: string, options: WaitOptions) => wait(release, options, context));
}

/** Waits until the release is ready, can't become ready, or the time is over. */
async function wait(name: string, options: WaitOptions, context: CommandContext): Promise<void> {
  if (!isDigest(name)) releaseOf(name);
  const timeoutMs = timeoutOf(options.timeout);
  const lines = new WaitLines(context);
  let seen: Seen = { needs: [], advance: { kind: 'waiting', state: 'is not known: the daemon has not answered' } };
  const follower = {
    read: async (client: { report(signal: AbortSignal): Promise<StatusReport> }) => {
      seen = see(await client.report(context.signal), name, options.for);
      if (seen.advance.kind !== 'waiting') return true;
      for (const need of seen.needs) lines.need(need);
      lines.show(`${name} ${seen.advance.state}`, seen.progress);
      return timeoutMs === 0;
    },
    away: ({ message }: AppError) => lines.show(`${sentence(oneLine(message))} It is waited for.`),
    isPatient: timeoutMs !== 0,
  };
  const clock = timeoutMs === 0 ? undefined : AbortSignal.timeout(timeoutMs);
  try {
    const until = clock === undefined ? [context.signal] : [context.signal, clock];
    await withEither(until, (signal) => followDaemon(undefined, context, follower, signal));
  } catch (error) {
    context.signal.throwIfAborted();
    if (clock?.aborted !== true) throw error;
  } finally {
    lines.end();
  }
  conclude(name, seen, options, context);
}

interface Seen {
  readonly advance: Advance;
  readonly release?: AwaitedRelease & {
    readonly bundleId?: string | undefined;
    readonly name?: string;
    readonly version?: string;
  };
  /** What a person must do for the release, or for the whole node. */
  readonly needs: StatusReport['needsPerson'];
  /** The progress of the running preload, if it preloads this release. */
  readonly progress?: string | undefined;
}

/** @throws AppError `engine/ambiguous` (`reject`) */
function see(report: StatusReport, name: string, goal: WaitGoal): Seen {
  // A bundle for other architectures says nothing about this node.
  const rejected = report.rejected.filter(({ reason }) => reason.code !== 'bundle/arch');
  const release = found({ ...report, rejected }, name);
  const { progress } = report;
  const isLoading = release?.phase === 'preloading' && progress.totalBytes > 0;
  return defined({
    advance: advanceOf(release, goal),
    release,
    needs: report.needsPerson.filter(({ bundle }) => bundle === undefined || bundle === titleOf(release, name)),
    progress: isLoading ? progressText(progress) : undefined,
  });
}

/** The argument may be a digest. */
function titleOf(release: Seen['release'], name: string): string {
  return release?.version === undefined ? name : `${release.name}@${release.version}`;
}

function found(report: StatusReport, name: string): Seen['release'] {
  try {
    return findShown(report, name) as Seen['release'];
  } catch (error) {
    if (error instanceof AppError && error.code === 'engine/no-bundle') return undefined;
    throw error;
  }
}

/** Prints how it ended. @throws AppError `cli/no-way`, `cli/timeout` */
function conclude(
  name: string,
  { advance, release, needs }: Seen,
  options: WaitOptions,
  context: CommandContext,
): void {
  const { kind } = advance;
  if (options.json) {
    const result = kind === 'waiting' ? 'late' : kind;
    const reason = kind === 'ended' ? advance.reason : undefined;
    const { bundleId, phase } = release ?? {};
    context.stdout(
      jsonText(defined({ release: name, goal: options.for, result, bundleId, phase, reason, needsPerson: needs })),
    );
  }
  switch (kind) {
    case 'reached':
      if (!options.json) context.stdout(wrapLines(`${name} is ${options.for}\n`, context.columns, 4));
      return;
    case 'ended':
      throw cliError('cli/no-way', `${name} does not become ${options.for}: ${advance.reason.message}`);
    case 'waiting':
      throw cliError('cli/timeout', `${name} is not ${options.for} in time: it ${advance.state}`);
  }
}

/** Prints to stderr what it waits for: on a terminal in one line, else a line per change. */
class WaitLines {
  private last = '';
  private isOpen = false;
  private readonly needs = new Set<string>();

  constructor(private readonly context: CommandContext) {}

  /** @param progress for a terminal only, since it changes every second */
  show(text: string, progress?: string): void {
    const { stderr, stderrColumns } = this.context;
    const line = oneLine(text);
    if (stderrColumns === undefined) {
      if (line !== this.last) stderr(`${line}\n`);
    } else {
      const whole = progress === undefined ? line : `${line}: ${progress}`;
      stderr(`\r\u001b[K${clip(whole, stderrColumns - 1)}`);
      this.isOpen = true;
    }
    this.last = line;
  }

  /** Each once, in a line that stays. */
  need({ code, message }: StatusReport['needsPerson'][number]): void {
    const line = `A person is needed (${code}): ${message}`;
    if (this.needs.has(line)) return;
    this.needs.add(line);
    this.end();
    printStderrLine(line, 'warning', this.context);
  }

  /** Ends the line, so that later output begins a new one. */
  end(): void {
    if (this.isOpen) this.context.stderr('\r\u001b[K');
    this.isOpen = false;
  }
}

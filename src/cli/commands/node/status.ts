import { type Command, Option } from 'commander';
import type { ApiClient } from '../../../api/client.ts';
import type { StatusReport } from '../../../domain/report/status-schema.ts';
import { EXIT_CODES, verdictOf } from '../../../domain/report/verdict.ts';
import type { AppError } from '../../../platform/app-error.ts';
import { oneLine, sentence } from '../../../platform/plain-text.ts';
import { EndedWith } from '../../context/cli-error.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { whenStored, withDaemonOrStored } from '../../context/daemon-client.ts';
import { type Follower, followDaemon } from '../../context/follow-daemon.ts';
import { renderStoredStatus, storedHead } from '../../output/render/render-show.ts';
import { renderList, renderStatus } from '../../output/render/render-status.ts';
import { jsonText, wrapLines } from '../../output/text.ts';

interface StatusOptions {
  readonly json?: true;
  readonly watch?: true;
  readonly exitCode?: true;
}

export function registerStatus(program: Command, context: CommandContext): void {
  program
    .command('status')
    .description('show what the daemon does now')
    .option('--json', 'print the whole state as JSON')
    .option('--watch', 'print again after every change, until interrupted')
    .addOption(
      new Option(
        '--exit-code',
        'end with 0 when all is good, 1 at work, 2 when a person is needed, 3 after a fault, 4 when it is not known',
      ).conflicts('watch'),
    )
    .action((options: StatusOptions) => status(options, context));
}

async function status(options: StatusOptions, context: CommandContext): Promise<void> {
  const isRepainted = options.watch === true && !options.json && context.isTerminal;
  const live = async (client: ApiClient) => {
    const print = async (on: ApiClient, columns: number | undefined) => {
      const report = await on.report(context.signal);
      const layout = { ...context, ...(columns !== undefined && { columns }) };
      const text = options.json ? jsonText(report) : renderStatus(report, layout);
      context.stdout(isRepainted ? repainted(text) : text);
      if (options.exitCode) throw new EndedWith(EXIT_CODES[verdictOf(report)]);
    };
    await (options.watch ? watchStatus(client, print, context, isRepainted) : print(client, context.columns));
  };
  await withDaemonOrStored(context, live, async (state) => {
    const stored = await state.report(context.signal);
    if (stored === undefined) return undefined;
    const { report, writtenAt, bootId } = stored;
    context.stdout(
      options.json ? jsonText({ ...report, writtenAt, bootId }) : renderStoredStatus(report, stored, context),
    );
    return whenStored(stored);
  });
}

export function registerList(program: Command, context: CommandContext): void {
  program
    .command('list')
    .description('show the bundles that are known or plugged in, with their phases and reasons')
    .option('--all', 'also releases that are retired and not plugged in')
    .option('--json', 'print as JSON, always with all')
    .action((options: { all?: true; json?: true }) => {
      const print = (report: StatusReport, when: { readonly writtenAt?: string } = {}) =>
        context.stdout(
          options.json ? jsonText({ ...listed(report), ...when }) : renderList(report, context, options.all),
        );
      return withDaemonOrStored(
        context,
        async (client) => print(await client.report(context.signal)),
        async (state) => {
          const stored = await state.report(context.signal);
          if (stored === undefined) return undefined;
          if (!options.json) context.stdout(storedHead(stored, context));
          print(stored.report, { writtenAt: stored.writtenAt });
          return whenStored(stored);
        },
      );
    });
}

function listed({ bundles, notices, rejected, rejectedNames, unclaimed }: StatusReport) {
  return { bundles, notices, rejected, rejectedNames, unclaimed };
}

/** Each line is cleared as it is written, so that nothing flickers. */
function repainted(text: string): string {
  return `\u001b[H${text.replaceAll('\n', '\u001b[K\n')}\u001b[J`;
}

/**
 * Prints now, after each change and each resize, until the signal of the context aborts. Prints
 * that the daemon has ended, and the state again once it answers.
 *
 * @param isRepainted whether each print takes the place of the one before
 * @throws AppError of the first print; of a later one, unless the daemon does not answer
 */
async function watchStatus(
  first: ApiClient,
  print: (client: ApiClient, columns: number | undefined) => Promise<void>,
  context: CommandContext,
  isRepainted: boolean,
): Promise<void> {
  const { signal } = context;
  let { columns } = context;
  let away: string | undefined;
  const follower: Follower = {
    read: async (client) => {
      await print(client, columns);
      away = undefined;
      return false;
    },
    away: (error) => {
      if (error.message !== away || isRepainted) printAway(error, context, isRepainted ? columns : undefined);
      away = error.message;
    },
    alsoAfter: (changed) =>
      context.onResize?.((width) => {
        columns = width;
        if (isRepainted) changed();
      }, signal),
  };
  try {
    await followDaemon(first, context, follower, signal);
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** `columns`: of the terminal that is painted; undefined when none is. */
function printAway({ message }: AppError, context: CommandContext, columns: number | undefined): void {
  const text = wrapLines(`${sentence(oneLine(message))} This screen waits for it.\n`, columns);
  if (columns !== undefined) context.stdout(repainted(text));
  else context.stderr(text);
}

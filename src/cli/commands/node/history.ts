import type { Command } from 'commander';
import type { ResultOf } from '../../../api/backend.ts';
import { oneLine } from '../../../platform/plain-text.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { withDaemon } from '../../context/daemon-client.ts';
import { jsonText } from '../../output/json.ts';
import { wrapLines } from '../../output/wrap-words.ts';

/** Adds `history` to the program. */
export function registerHistory(program: Command, context: CommandContext): void {
  program
    .command('history')
    .description('show the events on this node, or of one bundle, oldest first')
    .argument('[bundle]', 'NAME@VERSION, or the digest of the bundle')
    .option('--json', 'print as JSON')
    .action((bundle: string | undefined, options: { readonly json?: true }) =>
      withDaemon(context, async (client) => {
        const events = await client.getHistory({ bundle: bundle ?? '' }, context.signal);
        context.stdout(
          options.json
            ? jsonText({ events: events.map((event) => ({ ...event, at: timeOf(event) })) })
            : linesOf(events, context),
        );
      }),
    );
}

type Events = ResultOf<'getHistory'>;

function linesOf(events: Events, { columns }: CommandContext): string {
  if (events.length === 0) return 'Nothing has happened yet.\n';
  const lines = events.map((event) => `${timeOf(event)}  ${oneLine(event.message)}\n`);
  return wrapLines(lines.join(''), columns, 26);
}

/** RFC 3339. The clock of a node may have been anything, so a time that no date can say stays a number. */
function timeOf({ at }: Events[number]): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? String(at) : date.toISOString();
}

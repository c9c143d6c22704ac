import type { Command } from 'commander';
import type { ResultOf } from '../../../api/backend.ts';
import { oneLine } from '../../../platform/plain-text.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { withDaemon } from '../../context/daemon-client.ts';

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
        context.stdout(options.json ? `${JSON.stringify(events)}\n` : linesOf(events));
      }),
    );
}

function linesOf(events: ResultOf<'getHistory'>): string {
  if (events.length === 0) return 'Nothing has happened yet.\n';
  return events.map(({ at, message }) => `${new Date(at).toISOString()}  ${oneLine(message)}\n`).join('');
}

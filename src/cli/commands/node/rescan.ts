import type { Command } from 'commander';
import type { CommandContext } from '../../context/command-context.ts';
import { withDaemon } from '../../context/daemon-client.ts';

/** Adds `rescan` to the program. */
export function registerRescan(program: Command, context: CommandContext): void {
  program
    .command('rescan')
    .description('look at all media and the runtime again, and go on with what was cancelled')
    .action(() => withDaemon(context, (client) => client.rescan({}, context.signal)));
}

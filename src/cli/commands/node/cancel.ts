import type { Command } from 'commander';
import type { CommandContext } from '../../context/command-context.ts';
import { withDaemon } from '../../context/daemon-client.ts';

/** Adds `cancel` to the program. */
export function registerCancel(program: Command, context: CommandContext): void {
  program
    .command('cancel')
    .description('break off the preload; it goes on when the stick is plugged in again, or after rescan')
    .action(() => withDaemon(context, (client) => client.cancel({}, context.signal)));
}

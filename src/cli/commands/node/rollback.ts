import type { Command } from 'commander';
import type { CommandContext } from '../../context/command-context.ts';
import { withDaemon } from '../../context/daemon-client.ts';

/** Adds `rollback` to the program. */
export function registerRollback(program: Command, context: CommandContext): void {
  program
    .command('rollback')
    .description('activate the fallback again: the proven release before the present one')
    .argument('[name]', 'NAME of the release stream, if there is more than one')
    .action((name: string | undefined) =>
      withDaemon(context, async (client) => {
        const bundle = await client.rollback({ stream: name ?? '' }, context.signal);
        context.stdout(`Activation of ${bundle} was asked for; 'stickpin status' shows how it goes.\n`);
      }),
    );
}

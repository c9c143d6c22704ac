import type { Command } from 'commander';
import type { CommandContext } from '../command-context.ts';
import { withDaemon } from '../daemon-client.ts';

/** Adds `activate` to the program. */
export function registerActivate(program: Command, context: CommandContext): void {
  program
    .command('activate')
    .description("give a ready release's tags to its images")
    .argument('<bundle>', 'NAME@VERSION, or the digest of the bundle')
    .action((bundle: string) =>
      withDaemon(context, async (client) => {
        await client.activate(bundle, context.signal);
        context.stdout(`Activation of ${bundle} was asked for; 'stickpin status' shows how it goes.\n`);
      }),
    );
}

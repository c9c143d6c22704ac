import type { Command } from 'commander';
import type { CommandContext } from '../../context/command-context.ts';
import { withDaemon } from '../../context/daemon-client.ts';
import { printMessage } from '../../output/message.ts';

/** Adds `reject` to the program. */
export function registerReject(program: Command, context: CommandContext): void {
  program
    .command('reject')
    .description('reject a bundle, or stop one that was adopted; what is pinned stays pinned')
    .argument('<bundle>', 'the digest of the bundle, or NAME@VERSION, also of one whose stick has not come yet')
    .option('--reason <text>', 'why; it is kept and shown')
    .option('--json', 'print as JSON')
    .action((bundle: string, { reason, json }: { readonly reason?: string; readonly json?: true }) =>
      withDaemon(context, async (client) => {
        const message =
          reason === undefined
            ? await client.reject({ bundle }, context.signal)
            : await client.rejectWithReason({ bundle, reason }, context.signal);
        printMessage(message, { json }, context);
      }),
    );
}

import type { Command } from 'commander';
import type { CommandContext } from '../../context/command-context.ts';
import { withDaemon } from '../../context/daemon-client.ts';

/** Adds `approve` and `reject` to the program. */
export function registerVerdicts(program: Command, context: CommandContext): void {
  program
    .command('approve')
    .description('let a bundle in by its digest, ahead of its stick or when it waits for that')
    .argument('<bundle>', 'the digest of the bundle, or NAME@VERSION of one that is plugged in')
    .option('--json', 'print as JSON')
    .action((bundle: string, options: { json?: true }) =>
      withDaemon(context, async (client) => print(await client.approve({ bundle }, context.signal), options, context)),
    );
  program
    .command('reject')
    .description('keep a bundle out by its digest, or stop one that was taken up; what is pinned stays')
    .argument('<bundle>', 'the digest of the bundle, or NAME@VERSION of one that is known')
    .option('--json', 'print as JSON')
    .action((bundle: string, options: { json?: true }) =>
      withDaemon(context, async (client) => print(await client.reject({ bundle }, context.signal), options, context)),
    );
}

function print(message: string, { json }: { readonly json?: true }, { stdout }: CommandContext): void {
  stdout(json ? `${JSON.stringify({ message })}\n` : `${message}\n`);
}

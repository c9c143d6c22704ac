import type { Command } from 'commander';
import type { CommandContext } from '../command-context.ts';
import { withDaemon } from '../daemon-client.ts';

/** Adds `unpin` to the program. */
export function registerUnpin(program: Command, context: CommandContext): void {
  program
    .command('unpin')
    .description('give up a release: its images are pinned no longer')
    .argument('<bundle>', 'NAME@VERSION, or the digest of the bundle')
    .option('--remove-images', 'also remove those of its images that no other release names and no container uses')
    .option('--force', 'even the release that was activated last, or the last known good one')
    .action((bundle: string, options: { removeImages?: true; force?: true }) =>
      withDaemon(context, async (client) => {
        const { removeImages = false, force = false } = options;
        await client.unpin(bundle, { removeImages, force }, context.signal);
        context.stdout(`${bundle} is pinned no longer.\n`);
      }),
    );
}

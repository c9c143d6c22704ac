import type { Command } from 'commander';
import type { ApiClient } from '../../api/client.ts';
import type { CommandContext } from '../command-context.ts';
import { confirmOrDecline } from '../confirm.ts';
import { withDaemon } from '../daemon-client.ts';

interface UnpinFlags {
  readonly removeImages?: true;
  readonly force?: true;
}

/** Adds `unpin` to the program. */
export function registerUnpin(program: Command, context: CommandContext): void {
  program
    .command('unpin')
    .description('give up a release: its images are pinned no longer')
    .argument('<bundle>', 'NAME@VERSION, or the digest of the bundle')
    .option('--remove-images', 'also remove those of its images that no other release names and no container uses')
    .option('--force', 'even the release that runs, or the last known good one, without being asked')
    .action((bundle: string, flags: UnpinFlags) =>
      withDaemon(context, async (client) => {
        await unpin(client, bundle, flags, context);
        context.stdout(`${bundle} is pinned no longer.\n`);
      }),
    );
}

function unpin(client: ApiClient, bundle: string, flags: UnpinFlags, context: CommandContext): Promise<void> {
  const { removeImages = false, force = false } = flags;
  const go = (isForced: boolean) => client.unpin(bundle, { removeImages, force: isForced }, context.signal);
  return confirmOrDecline(go, force, context, {
    code: 'engine/running',
    question: 'Unpin it all the same?',
    unchanged: `${bundle} stays pinned`,
  });
}

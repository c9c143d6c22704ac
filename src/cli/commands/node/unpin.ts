import type { Command } from 'commander';
import type { ApiClient } from '../../../api/client.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { confirmOrDecline } from '../../context/confirm.ts';
import { withDaemon } from '../../context/daemon-client.ts';
import { printMessage } from '../../output/message.ts';

interface UnpinFlags {
  readonly removeImages?: true;
  readonly force?: true;
  readonly unclaimed?: true;
  readonly json?: true;
}

/** Adds `unpin` to the program. */
export function registerUnpin(program: Command, context: CommandContext): void {
  program
    .command('unpin')
    .description('give up a release: its images are no longer pinned')
    .argument('[bundle]', 'NAME@VERSION, or the digest of the bundle')
    .option('--unclaimed', 'give up all pins that belong to no known release instead; their images stay')
    .option('--remove-images', 'also remove its images that no other release names and no container uses')
    .option('--force', 'do not ask, even if the release runs or is the last known good one')
    .option('--json', 'print as JSON')
    .action((bundle: string | undefined, flags: UnpinFlags, command: Command) => {
      refuseContradictions(bundle, flags, command);
      return withDaemon(context, async (client) => {
        printMessage(`${await unpin(client, bundle, flags, context)}.`, flags, context);
      });
    });
}

function refuseContradictions(bundle: string | undefined, flags: UnpinFlags, command: Command): void {
  if (flags.unclaimed === undefined) {
    if (bundle === undefined) command.error("error: missing argument 'bundle', or --unclaimed", { exitCode: 2 });
    return;
  }
  if (bundle !== undefined) command.error('error: --unclaimed takes no bundle', { exitCode: 2 });
  if (flags.removeImages) command.error('error: --unclaimed removes no images', { exitCode: 2 });
}

/** Returns what was done. */
async function unpin(
  client: ApiClient,
  bundle: string | undefined,
  flags: UnpinFlags,
  context: CommandContext,
): Promise<string> {
  const { removeImages = false, force = false } = flags;
  if (bundle === undefined) {
    let done = '';
    const go = async (isForced: boolean) => {
      done = await client.unpinUnclaimed({ force: isForced }, context.signal);
    };
    await confirmOrDecline(go, force, context, {
      code: 'engine/running',
      consequence: 'If you give up the unclaimed pins, their images can be collected',
      question: 'Give them up anyway?',
      unchanged: 'the unclaimed pins stay',
    });
    return done;
  }
  const go = (isForced: boolean) => client.unpin({ bundle, removeImages, force: isForced }, context.signal);
  await confirmOrDecline(go, force, context, {
    code: 'engine/running',
    consequence: `If you unpin ${bundle}, its images ${removeImages ? 'are removed' : 'can be collected'}`,
    question: 'Unpin it anyway?',
    unchanged: `${bundle} stays pinned`,
  });
  return `${bundle} is no longer pinned`;
}

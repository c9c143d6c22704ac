import type { Command } from 'commander';
import type { ApiClient } from '../../../api/client.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { confirmFirst } from '../../context/confirm.ts';
import { withDaemon } from '../../context/daemon-client.ts';
import { printMessage } from '../../output/message.ts';

interface RejectFlags {
  readonly reason?: string;
  readonly force?: true;
  readonly yes?: true;
  readonly json?: true;
}

/** Adds `reject` to the program. */
export function registerReject(program: Command, context: CommandContext): void {
  program
    .command('reject')
    .description('reject a bundle, or stop one that was adopted; what is pinned stays pinned')
    .argument('<bundle>', 'the digest of the bundle, or NAME@VERSION, also of one whose stick has not come yet')
    .option('--reason <text>', 'why; it is kept and shown')
    .option('--force', 'do not ask, even if the bundle was adopted')
    .option('-y, --yes', 'the same as --force')
    .option('--json', 'print as JSON')
    .action((bundle: string, flags: RejectFlags) =>
      withDaemon(context, async (client) => {
        const { reason } = flags;
        if (flags.force !== true && flags.yes !== true) await confirmAdopted(bundle, client, context);
        const message =
          reason === undefined
            ? await client.reject({ bundle }, context.signal)
            : await client.rejectWithReason({ bundle, reason }, context.signal);
        printMessage(message, flags, context);
      }),
    );
}

/** Asks a person when the bundle, or one of this name, was adopted and is not retired. */
async function confirmAdopted(named: string, client: ApiClient, context: CommandContext): Promise<void> {
  const { bundles, notices } = await client.report(context.signal);
  const releases = bundles.filter(({ adoptedAt, phase }) => adoptedAt !== undefined && phase !== 'retired');
  const adopted = [...releases, ...notices].find(
    ({ bundleId, name, version }) => bundleId === named || `${name}@${version}` === named,
  );
  if (adopted === undefined) return;
  const title = `${adopted.name}@${adopted.version}`;
  const [is, then] =
    'phase' in adopted
      ? [`it is ${adopted.phase}`, 'it is not loaded any further and not activated, and what is pinned stays pinned']
      : ['it has no images', 'its advisories about other releases count no more, and its changes of keys stay'];
  await confirmFirst(context, {
    consequence: `If you reject ${title}, which this node has adopted (${is}), ${then}; 'stickpin approve' takes that back`,
    question: 'Reject it?',
    unchanged: `${title} is not rejected`,
  });
}

import type { Command } from 'commander';
import type { CommandContext } from '../../context/command-context.ts';
import { confirmOrDecline } from '../../context/confirm.ts';
import { withDaemon } from '../../context/daemon-client.ts';
import { printMessage } from '../../output/message.ts';

/** Adds `activate` to the program. */
export function registerActivate(program: Command, context: CommandContext): void {
  program
    .command('activate')
    .description('start to use a release that is ready (its tags then point to its images)')
    .argument('<bundle>', 'NAME@VERSION, or the digest of the bundle')
    .option('--force', 'do not ask, even if rules, a closed window or a wrong clock hold it')
    .option('--json', 'print as JSON')
    .action((bundle: string, { force = false, json }: { readonly force?: boolean; readonly json?: true }) =>
      withDaemon(context, async (client) => {
        const go = (override: boolean) =>
          override ? client.activateOverride({ bundle }, context.signal) : client.activate({ bundle }, context.signal);
        await confirmOrDecline(go, force, context, {
          code: 'engine/activation-held',
          consequence: `If you activate ${bundle}, its tags point to its images from then on`,
          question: 'Activate it anyway?',
          unchanged: `${bundle} is not activated`,
        });
        printMessage(`Activation of ${bundle} was asked for; 'stickpin status' shows how it goes.`, { json }, context);
      }),
    );
}

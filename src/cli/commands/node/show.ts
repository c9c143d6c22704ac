import type { Command } from 'commander';
import type { CommandContext } from '../../context/command-context.ts';
import { withDaemon } from '../../context/daemon-client.ts';
import { findShown } from '../../context/find-shown.ts';
import { renderShow } from '../../output/render-show.ts';

/** Adds `show` to the program. */
export function registerShow(program: Command, context: CommandContext): void {
  program
    .command('show')
    .description('show everything about one bundle: phase, conditions, signers, and the keys in use')
    .argument(
      '<bundle>',
      'NAME@VERSION, NAME, the digest of the bundle or its first digits, or a name or path of a rejected one in list',
    )
    .option('--json', 'print as JSON')
    .action((name: string, options: { readonly json?: true }) =>
      withDaemon(context, async (client) => {
        const report = await client.report(context.signal);
        const { trust } = report;
        const found = findShown(report, name);
        context.stdout(options.json ? `${JSON.stringify({ ...found, trust })}\n` : renderShow(found, trust));
      }),
    );
}

import type { Command } from 'commander';
import { AppError } from '../../platform/app-error.ts';
import type { CommandContext } from '../command-context.ts';
import { readReport, withDaemon } from '../daemon-client.ts';
import { renderShow } from '../render-show.ts';

/** Adds `show` to the program. */
export function registerShow(program: Command, context: CommandContext): void {
  program
    .command('show')
    .description('all that is known of one bundle: phase, conditions, signers, and the trust in force')
    .argument('<bundle>', 'NAME@VERSION, or the digest of the bundle')
    .option('--json', 'print as JSON')
    .action((name: string, options: { readonly json?: true }) =>
      withDaemon(context, async (client) => {
        const { bundles, notices, trust } = await readReport(client, context.signal);
        const found = [...bundles, ...notices].findLast((one) =>
          [one.bundleId, `${one.name}@${one.version}`].includes(name),
        );
        if (found === undefined) throw unknown(name);
        context.stdout(options.json ? `${JSON.stringify({ ...found, trust })}\n` : renderShow(found, trust));
      }),
    );
}

function unknown(name: string): AppError {
  return new AppError({
    code: 'engine/no-bundle',
    message: `no bundle ${name} is known here or plugged in; 'stickpin list' shows those that are`,
    disposition: 'reject',
  });
}

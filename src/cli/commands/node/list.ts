import type { Command } from 'commander';
import type { CommandContext } from '../../context/command-context.ts';
import { readReport, withDaemon } from '../../context/daemon-client.ts';
import { renderList } from '../../output/render-status.ts';

/** Adds `list` to the program. */
export function registerList(program: Command, context: CommandContext): void {
  program
    .command('list')
    .description('the bundles that are known here or plugged in, with their phases and reasons')
    .option('--json', 'print as JSON')
    .action((options: { json?: true }) =>
      withDaemon(context, async (client) => {
        if (options.json) context.stdout(`${JSON.stringify(await client.list(context.signal))}\n`);
        else context.stdout(renderList(await readReport(client, context.signal)));
      }),
    );
}

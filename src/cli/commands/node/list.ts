import type { Command } from 'commander';
import type { CommandContext } from '../../context/command-context.ts';
import { withDaemon } from '../../context/daemon-client.ts';
import { jsonText } from '../../output/json.ts';
import { renderList } from '../../output/render-status.ts';

/** Adds `list` to the program. */
export function registerList(program: Command, context: CommandContext): void {
  program
    .command('list')
    .description('show the bundles that are known or plugged in, with their phases and reasons')
    .option('--json', 'print as JSON')
    .action((options: { json?: true }) =>
      withDaemon(context, async (client) => {
        const report = await client.report(context.signal);
        const { bundles, notices, rejected, rejectedNames, unclaimed } = report;
        context.stdout(
          options.json
            ? jsonText({ bundles, notices, rejected, rejectedNames, unclaimed })
            : renderList(report, context),
        );
      }),
    );
}

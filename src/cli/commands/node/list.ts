import type { Command } from 'commander';
import type { StatusReport } from '../../../domain/report/report.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { whenStored, withDaemonOrStored } from '../../context/stored-state.ts';
import { jsonText } from '../../output/json.ts';
import { renderList } from '../../output/render/render-status.ts';
import { storedHead } from '../../output/render/render-stored.ts';

/** Adds `list` to the program. */
export function registerList(program: Command, context: CommandContext): void {
  program
    .command('list')
    .description('show the bundles that are known or plugged in, with their phases and reasons')
    .option('--json', 'print as JSON')
    .action((options: { json?: true }) => {
      const print = (report: StatusReport, when: { readonly writtenAt?: string } = {}) =>
        context.stdout(options.json ? jsonText({ ...listed(report), ...when }) : renderList(report, context));
      return withDaemonOrStored(
        context,
        async (client) => print(await client.report(context.signal)),
        async (state) => {
          const stored = await state.report(context.signal);
          if (stored === undefined) return undefined;
          if (!options.json) context.stdout(storedHead(stored, context));
          print(stored.report, { writtenAt: stored.writtenAt });
          return whenStored(stored);
        },
      );
    });
}

function listed({ bundles, notices, rejected, rejectedNames, unclaimed }: StatusReport) {
  return { bundles, notices, rejected, rejectedNames, unclaimed };
}

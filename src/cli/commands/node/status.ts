import type { Command } from 'commander';
import type { ApiClient } from '../../../api/client.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { whenStored, withDaemonOrStored } from '../../context/stored-state.ts';
import { jsonText } from '../../output/json.ts';
import { renderStatus } from '../../output/render/render-status.ts';
import { renderStoredStatus } from '../../output/render/render-stored.ts';
import { repainted, watchStatus } from './watch-status.ts';

interface StatusOptions {
  readonly json?: true;
  readonly watch?: true;
}

/** Adds `status` to the program. */
export function registerStatus(program: Command, context: CommandContext): void {
  program
    .command('status')
    .description('show what the daemon does now')
    .option('--json', 'print the whole state as JSON')
    .option('--watch', 'print again after every change, until interrupted')
    .action((options: StatusOptions) => status(options, context));
}

async function status(options: StatusOptions, context: CommandContext): Promise<void> {
  const isRepainted = options.watch === true && !options.json && context.isTerminal;
  const live = async (client: ApiClient) => {
    const print = async (columns: number | undefined) => {
      const report = await client.report(context.signal);
      const layout = { ...context, ...(columns !== undefined && { columns }) };
      const text = options.json ? jsonText(report) : renderStatus(report, layout);
      context.stdout(isRepainted ? repainted(text) : text);
    };
    await (options.watch ? watchStatus(client, print, context, isRepainted) : print(context.columns));
  };
  await withDaemonOrStored(context, live, async (state) => {
    const stored = await state.report(context.signal);
    if (stored === undefined) return undefined;
    const { report, writtenAt, bootId } = stored;
    context.stdout(
      options.json ? jsonText({ ...report, writtenAt, bootId }) : renderStoredStatus(report, stored, context),
    );
    return whenStored(stored);
  });
}

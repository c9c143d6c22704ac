import type { Command } from 'commander';
import type { ApiClient } from '../../../api/client.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { whenStored, withDaemonOrStored } from '../../context/stored-state.ts';
import { jsonText } from '../../output/json.ts';
import { renderStatus } from '../../output/render-status.ts';
import { renderStoredStatus } from '../../output/render-stored.ts';

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

/** From the top of the terminal. Each line is cleared as it is written, so that nothing flickers. */
function repainted(text: string): string {
  return `\u001b[H${text.replaceAll('\n', '\u001b[K\n')}\u001b[J`;
}

async function status(options: StatusOptions, context: CommandContext): Promise<void> {
  const live = async (client: ApiClient) => {
    const print = async () => {
      const report = await client.report(context.signal);
      const text = options.json ? jsonText(report) : renderStatus(report, context);
      const isRepainted = options.watch && !options.json && context.isTerminal;
      context.stdout(isRepainted ? repainted(text) : text);
    };
    if (!options.watch) return print();
    let latest = Promise.resolve();
    let isDue = false;
    const changed = () => {
      // The daemon sends several signals for one change.
      if (isDue) return;
      isDue = true;
      latest = latest.then(() => {
        isDue = false;
        return print();
      });
    };
    await client.watch(changed, context.signal);
    // Only now: what changes after it is reported.
    latest = latest.then(print);
    await latest;
    await new Promise<void>((resolve) => {
      context.signal.addEventListener('abort', () => resolve(), { once: true });
    });
    await latest.catch(() => undefined); // may be interrupted during its output
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

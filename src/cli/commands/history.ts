import type { Command } from 'commander';
import { oneLine } from '../../domain/one-line.ts';
import type { BundleReport } from '../../domain/report.ts';
import { AppError } from '../../platform/app-error.ts';
import type { CommandContext } from '../command-context.ts';
import { readReport, withDaemon } from '../daemon-client.ts';

interface EventLine {
  readonly at: number;
  readonly kind: string;
  readonly message: string;
}

/** Adds `history` and `show` to the program. */
export function registerHistory(program: Command, context: CommandContext): void {
  program
    .command('history')
    .description('what happened on this node, or with one bundle, oldest first')
    .argument('[bundle]', 'NAME@VERSION, or the digest of the bundle')
    .option('--json', 'print as JSON')
    .action((bundle: string | undefined, options: { json?: true }) =>
      withDaemon(context, async (client) => {
        const events = (await client.history(bundle ?? '', context.signal)) as readonly EventLine[];
        context.stdout(options.json ? `${JSON.stringify(events)}\n` : linesOf(events));
      }),
    );
  program
    .command('show')
    .description('all that is known of one bundle')
    .argument('<bundle>', 'NAME@VERSION, or the digest of the bundle')
    .option('--json', 'print as JSON')
    .action((name: string, options: { json?: true }) =>
      withDaemon(context, async (client) => {
        const { bundles, notices } = await readReport(client, context.signal);
        const found = [...bundles, ...notices].findLast((one) =>
          [one.bundleId, `${one.name}@${one.version}`].includes(name),
        );
        if (found === undefined) throw unknown(name);
        context.stdout(options.json ? `${JSON.stringify(found)}\n` : render(found));
      }),
    );
}

function linesOf(events: readonly EventLine[]): string {
  if (events.length === 0) return 'Nothing has happened yet.\n';
  return events.map(({ at, message }) => `${new Date(at).toISOString()}  ${oneLine(message)}\n`).join('');
}

/** A line for each member, those of nested ones as they are in JSON. */
function render(bundle: Partial<BundleReport>): string {
  return Object.entries(bundle)
    .map(([name, value]) => `${`${name}:`.padEnd(13)}${typeof value === 'object' ? JSON.stringify(value) : value}\n`)
    .join('');
}

function unknown(name: string): AppError {
  return new AppError({
    code: 'engine/no-bundle',
    message: `no bundle ${name} is known here or plugged in; 'stickpin list' shows those that are`,
    disposition: 'reject',
  });
}

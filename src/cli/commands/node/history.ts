import type { Command } from 'commander';
import type { ResultOf } from '../../../api/backend.ts';
import { isDigest } from '../../../domain/model/digest.ts';
import { recordedReport } from '../../../domain/report/parts/recorded-report.ts';
import { oneLine } from '../../../platform/plain-text.ts';
import type { StoredState } from '../../context/command-adapters.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { withDaemonOrStored } from '../../context/daemon-client.ts';
import { findShown } from '../../context/find-shown.ts';
import { paintLines, toneOfEvent } from '../../output/colour.ts';
import type { JsonFlag } from '../../output/text.ts';
import { jsonText, shortDigests, wrapLines } from '../../output/text.ts';

export function registerHistory(program: Command, context: CommandContext): void {
  program
    .command('history')
    .description('show the events on this node, or of one bundle, oldest first')
    .argument('[bundle]', 'NAME@VERSION, or the digest of the bundle')
    .option('--json', 'print as JSON')
    .action((bundle: string | undefined, options: JsonFlag) => {
      const print = (events: Events) => {
        const document = { events: events.map((event) => ({ ...event, at: timeOf(event) })) };
        context.stdout(options.json ? jsonText(document) : linesOf(events, context));
      };
      return withDaemonOrStored(
        context,
        async (client) => print(await client.getHistory({ bundle: bundle ?? '' }, context.signal)),
        async (state) => {
          print(await state.history(await storedId(bundle, state, context), context.signal));
          return 'what it recorded until it ended';
        },
      );
    });
}

/** By what the daemon left on the disk. @throws as `findShown`; AppError `cli/no-state` */
async function storedId(
  bundle: string | undefined,
  state: StoredState,
  { signal }: CommandContext,
): Promise<string | undefined> {
  if (bundle === undefined || isDigest(bundle)) return bundle;
  const [records, stored] = [await state.records(signal), await state.report(signal)];
  return findShown(recordedReport(records, stored?.report), bundle).bundleId;
}

type Events = ResultOf<'getHistory'>;

function linesOf(events: Events, layout: CommandContext): string {
  if (events.length === 0) return 'Nothing has happened yet.\n';
  return events
    .map((event) => {
      const line = shortDigests(`${timeOf(event)}  ${oneLine(event.message)}${authorText(event)}\n`, layout);
      return paintLines(wrapLines(line, layout.columns, 26), toneOfEvent(event.kind), layout.hasColour);
    })
    .join('');
}

/** Events of the daemon itself need no author. */
function authorText({ by, kind }: Events[number]): string {
  return by === undefined || by === 'daemon' || kind === 'commandAsked' ? '' : ` (by ${oneLine(by)})`;
}

/** RFC 3339. A time that no date can say stays a number: the clock may have been anything. */
function timeOf({ at }: Events[number]): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? String(at) : date.toISOString();
}

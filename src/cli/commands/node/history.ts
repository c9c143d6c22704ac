import { type Command, InvalidArgumentError } from 'commander';
import type { ResultOf } from '../../../api/backend.ts';
import type { ApiClient } from '../../../api/client.ts';
import { isDigest } from '../../../domain/model/digest.ts';
import { recordedReport } from '../../../domain/report/parts/recorded-report.ts';
import type { AppError } from '../../../platform/app-error.ts';
import { oneLine, sentence } from '../../../platform/plain-text.ts';
import type { StoredState } from '../../context/command-adapters.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { withDaemonOrStored } from '../../context/daemon-client.ts';
import { findShown } from '../../context/find-shown.ts';
import { followDaemon } from '../../context/follow-daemon.ts';
import { durationOf, numberOption } from '../../context/option-values.ts';
import { paintLines, toneOfEvent } from '../../output/colour.ts';
import { jsonText, printWarning, shortDigests, wrapLines } from '../../output/text.ts';

interface HistoryOptions {
  readonly since?: Since;
  readonly lines?: number;
  readonly follow?: true;
  readonly json?: true;
}

/** The daemon and the database return at most this many events. */
const MOST_EVENTS = 1_000;

/** `journalctl --follow` shows as many. */
const LINES_BEFORE = 10;

export function registerHistory(program: Command, context: CommandContext): void {
  program
    .command('history')
    .description('show the events on this node, or of one bundle, oldest first')
    .argument('[bundle]', 'NAME@VERSION, or the digest of the bundle')
    .option('--since <time>', 'only events since then: "2h" ago, 2026-11-01, or a time as in RFC 3339', sinceOf)
    .option(
      '-n, --lines <count>',
      'only the newest events',
      numberOption(/^\d+$/, `0 to ${MOST_EVENTS}.`, 0, MOST_EVENTS),
    )
    .option('--follow', `also print new events, until interrupted; begins with the newest ${LINES_BEFORE}`)
    .option('--json', 'print as JSON; with --follow a document for each change')
    .action((bundle: string | undefined, options: HistoryOptions) =>
      options.follow ? follow(bundle, options, context) : show(bundle, options, context),
    );
}

function show(bundle: string | undefined, options: HistoryOptions, context: CommandContext): Promise<void> {
  const { signal } = context;
  const print = (events: Events) => {
    const chosen = chosenOf(events, options, context);
    if (chosen.length === 0 && !options.json) {
      context.stdout(events.length === 0 ? 'Nothing has happened yet.\n' : 'Nothing has happened since then.\n');
    } else {
      printEvents(chosen, options, context);
    }
  };
  return withDaemonOrStored(
    context,
    async (client) => print(await client.getHistory({ bundle: bundle ?? '' }, signal)),
    async (state) => {
      print(await state.history(await storedId(bundle, state, context), signal));
      return 'what it recorded until it ended';
    },
  );
}

/** Each event once, also past a restart of the daemon. */
async function follow(
  bundle: string | undefined,
  { lines = LINES_BEFORE, ...others }: HistoryOptions,
  context: CommandContext,
): Promise<void> {
  const options = others.since === undefined ? { ...others, lines } : others;
  let before: Events | undefined;
  let away: string | undefined;
  const read = async (client: ApiClient) => {
    const events = await client.getHistory({ bundle: bundle ?? '' }, context.signal);
    const news = before === undefined ? chosenOf(events, options, context) : newEvents(before, events);
    if (before !== undefined && before.length > 0 && news.length === MOST_EVENTS) {
      printWarning(`more than ${MOST_EVENTS} events have happened at once; the oldest of them are left out`, context);
    }
    if (news.length > 0) printEvents(news, options, context);
    before = events;
    away = undefined;
    return false;
  };
  const follower = {
    read,
    away: ({ message }: AppError) => {
      const text = `${sentence(oneLine(message))} It is waited for.\n`;
      if (message !== away) context.stderr(wrapLines(text, context.stderrColumns));
      away = message;
    },
    isPatient: true,
  };
  try {
    await followDaemon(undefined, context, follower, context.signal);
  } catch (error) {
    // An interrupt ends the command without an error.
    if (!context.signal.aborted) throw error;
  }
}

/** The events of `after` that `before` lacks. Equal events are counted. */
export function newEvents(before: Events, after: Events): Events {
  const known = new Map<string, number>();
  for (const event of before) {
    const key = JSON.stringify(event);
    known.set(key, (known.get(key) ?? 0) + 1);
  }
  return after.filter((event) => {
    const key = JSON.stringify(event);
    const count = known.get(key) ?? 0;
    known.set(key, count - 1);
    return count <= 0;
  });
}

/** Sorts by time, then by number. Warns when older events may be missing. */
function chosenOf(events: Events, { since, lines = MOST_EVENTS }: HistoryOptions, context: CommandContext): Events {
  const from = since?.(context.now()) ?? Number.NEGATIVE_INFINITY;
  const [oldest] = events;
  if (since !== undefined && events.length === MOST_EVENTS && oldest !== undefined && oldest.at >= from) {
    printWarning(`only the newest ${MOST_EVENTS} events are shown; 'journalctl -u stickpin' has more`, context);
  }
  const recent = events.filter(({ at }) => at >= from);
  return lines === 0 ? [] : recent.slice(-lines);
}

/** The begin for the time of now, both in milliseconds since the epoch. */
type Since = (now: number) => number;

/** @throws InvalidArgumentError */
function sinceOf(text: string): Since {
  const durationMs = durationOf(text);
  if (durationMs !== undefined) return (now) => now - durationMs;
  const isTime = /^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:\d{2}))?$/.test(text);
  const at = isTime ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(at)) {
    throw new InvalidArgumentError(
      'It must be a duration as "2h", a day as 2026-11-01 (UTC), or a time as 2026-11-01T08:00:00Z.',
    );
  }
  return () => at;
}

/** Finds it in the daemon's files. @throws errors of `findShown`; AppError `cli/no-state` */
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

function printEvents(events: Events, { json }: HistoryOptions, context: CommandContext): void {
  const document = { events: events.map((event) => ({ ...event, at: timeOf(event) })) };
  context.stdout(json ? jsonText(document) : linesOf(events, context));
}

function linesOf(events: Events, layout: CommandContext): string {
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

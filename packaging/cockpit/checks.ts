import * as v from 'valibot';
import { type CallError, callError, type HistoryEvent } from './daemon.ts';
import { type Child, el, foreign } from './dom.ts';
import { alert, button, card, empty, label, spinner, table } from './parts.ts';
import { timeText } from './view.ts';

/** Something that is loaded on demand. */
export class Loaded<T> {
  value: T | undefined;
  fault: CallError | undefined;
  isBusy = false;

  constructor(
    private readonly work: () => Promise<T>,
    private readonly onChange: () => void,
  ) {}

  readonly load = (): void => void this.run();

  private async run(): Promise<void> {
    if (this.isBusy) return;
    this.isBusy = true;
    this.fault = undefined;
    this.onChange();
    try {
      this.value = await this.work();
    } catch (error) {
      this.fault = callError(error);
    }
    this.isBusy = false;
    this.onChange();
  }
}

/** The longest output of a command, in bytes. */
const MAX_OUTPUT = 8 * 1024 * 1024;
const MAX_REPORT = 64 * 1024 * 1024;

/** What a command prints. @throws CallError */
async function output(args: readonly string[], superuser: 'require' | 'try'): Promise<string> {
  let text = '';
  const process = cockpit.spawn(args, { superuser, err: 'message' });
  process.stream((data) => {
    text += data;
    if (text.length > MAX_OUTPUT) process.close('too-large');
    return data.length;
  });
  try {
    await process;
  } catch (error) {
    // Doctor ends with an exit code where it finds a fault, and prints its findings.
    if (text === '' || !text.trimStart().startsWith('{')) throw error;
  }
  return text;
}

/** What a command prints with `--json` when it fails. */
const failure = v.object({ error: v.object({ code: v.string(), message: v.string() }) });

async function document<S extends v.GenericSchema>(
  args: readonly string[],
  superuser: 'require' | 'try',
  schema: S,
): Promise<v.InferOutput<S>> {
  const printed: unknown = JSON.parse(await output(args, superuser));
  const failed = v.safeParse(failure, printed);
  if (failed.success) throw callError(failed.output.error);
  const parsed = v.safeParse(schema, printed);
  if (!parsed.success) throw callError({ message: `${args.join(' ')} printed something unexpected` });
  return parsed.output;
}

const findings = v.object({
  findings: v.array(
    v.object({
      subject: v.string(),
      message: v.string(),
      verdict: v.picklist(['ok', 'warning', 'fault']),
      remedy: v.optional(v.string()),
    }),
  ),
});
type Findings = v.InferOutput<typeof findings>['findings'];

export async function examine(): Promise<Findings> {
  return (await document(['stickpin', 'doctor', '--json'], 'require', findings)).findings;
}

/** Offers the report of support as a file. */
export async function downloadReport(): Promise<string> {
  const script = [
    'd=$(mktemp -d)',
    'trap \'rm -rf "$d"\' EXIT',
    // A shell that a signal ends runs no trap of EXIT: Cockpit sends SIGTERM when the page is left.
    "trap 'exit 1' HUP INT TERM",
    'stickpin report --out "$d/report.tar.gz" > /dev/null',
    'cat "$d/report.tar.gz"',
  ].join('\n');
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let sizeBytes = 0;
  const process = cockpit.spawn(['/bin/sh', '-ec', script], { superuser: 'require', err: 'message', binary: true });
  process.stream((data) => {
    sizeBytes += data.length;
    if (sizeBytes > MAX_REPORT) process.close('too-large');
    else parts.push(new Uint8Array(data));
    return data.length;
  });
  await process;
  const name = `stickpin-report-${new Date().toISOString().replaceAll(/[:.]/g, '')}.tar.gz`;
  const url = URL.createObjectURL(new Blob(parts, { type: 'application/gzip' }));
  el('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
  return name;
}

const TONES = { ok: 'good', warning: 'warning', fault: 'danger' } as const;

export function doctor(checks: Loaded<Findings>, report: Loaded<string>): Child {
  return [
    card(
      'Doctor',
      [button('Check the node', checks.load)],
      el('p', {}, 'Checks everything that stickpin needs on this node. It changes nothing.'),
      state(checks, 'The node is checked …'),
      checks.value &&
        table(
          'Findings',
          ['Verdict', 'Subject', 'Finding'],
          checks.value.map(({ verdict, subject, message, remedy }) => [
            label(verdict, TONES[verdict]),
            foreign(subject),
            [foreign(message), remedy === undefined ? undefined : el('p', { class: 'sp-quiet' }, foreign(remedy))],
          ]),
        ),
    ),
    card(
      'Report for support',
      [button('Make a report', report.load)],
      el('p', {}, 'One file with what support needs, without secrets. Look into it before you send it.'),
      state(report, 'The report is made …'),
      report.value && el('p', { role: 'status' }, 'Made ', foreign(report.value), '. Your browser saves it.'),
    ),
  ];
}

/** Events that are shown at first, and with each further request. */
const STEP = 100;

export function history(events: Loaded<readonly HistoryEvent[]>, shown: number, more: (shown: number) => void): Child {
  const all = events.value ?? [];
  return card(
    'History',
    [button('Refresh', events.load)],
    state(events, 'The history is read …'),
    events.value === undefined
      ? undefined
      : all.length === 0
        ? el('p', {}, 'Nothing has happened yet.')
        : table(
            'History',
            ['Time', 'Event', 'Medium', 'By'],
            all
              .slice(0, shown)
              .map(({ at, message, medium, by }) => [
                timeText(at),
                foreign(message),
                foreign(medium ?? ''),
                foreign(by ?? ''),
              ]),
          ),
    all.length > shown ? button('Show more', () => more(shown + STEP), 'pf-m-link') : undefined,
  );
}

const fleetView = v.object({
  self: v.string(),
  nodes: v.array(
    v.object({
      name: v.string(),
      seenAt: v.optional(v.string()),
      isAbsent: v.boolean(),
      status: v.optional(
        v.object({
          releases: v.array(
            v.object({
              name: v.string(),
              version: v.string(),
              phase: v.string(),
              percent: v.optional(v.number()),
              reason: v.optional(v.string()),
            }),
          ),
        }),
      ),
    }),
  ),
  peers: v.array(v.object({ name: v.string(), trouble: v.optional(v.string()) })),
  apiTrouble: v.optional(v.string()),
});
type Fleet = v.InferOutput<typeof fleetView>;

export function readFleet(): Promise<Fleet> {
  return document(['stickpin', 'fleet', 'status', '--json'], 'try', fleetView);
}

const MAX_NODES = 500;

/** With which `stickpin fleet status` ends where `fleet.enabled` is false. */
const NO_FLEET = 'fleet/off';

export function fleet(view: Loaded<Fleet>): Child {
  const { value } = view;
  return card(
    'Fleet',
    [button('Refresh', view.load)],
    view.fault?.code === NO_FLEET
      ? empty('This node is not in a fleet', 'To join it to others, see docs/fleet.md.')
      : state(view, 'The nodes are read …'),
    value?.apiTrouble === undefined ? undefined : alert('warning', 'The Kubernetes API', foreign(value.apiTrouble)),
    value?.peers.flatMap(({ name, trouble }) =>
      trouble === undefined ? [] : [alert('warning', foreign(name), foreign(trouble))],
    ),
    value &&
      table(
        'Nodes',
        ['Node', 'Releases', 'Seen'],
        value.nodes
          .slice(0, MAX_NODES)
          .map(({ name, status, seenAt, isAbsent }) => [
            [foreign(name), name === value.self ? ' (this node)' : undefined],
            releasesOf(status),
            name === value.self
              ? 'now'
              : [
                  seenAt === undefined ? 'not yet' : timeText(seenAt),
                  isAbsent ? [' ', label('absent', 'warning')] : undefined,
                ],
          ]),
      ),
  );
}

function releasesOf(status: Fleet['nodes'][number]['status']): Child {
  if (status === undefined) return 'not known';
  const kept = status.releases.filter(({ phase }) => phase !== 'retired');
  if (kept.length === 0) return 'none';
  return kept.map(({ name, version, phase, percent, reason }) =>
    el(
      'p',
      {},
      foreign(`${name} ${version}`),
      ' ',
      label(
        percent !== undefined && phase === 'preloading' ? `${phase} ${Math.floor(percent)} %` : phase,
        reason !== undefined || phase === 'held' ? 'warning' : phase === 'proven' ? 'good' : 'none',
      ),
      reason === undefined ? undefined : [' ', foreign(reason)],
    ),
  );
}

function state(loaded: Loaded<unknown>, busy: string): Child {
  if (loaded.isBusy) return spinner(busy);
  return loaded.fault && alert('danger', 'This was not done', foreign(loaded.fault.message));
}

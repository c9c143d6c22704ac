import { setTimeout as delay } from 'node:timers/promises';
import { type Command, Option } from 'commander';
import { excludeNode } from '../../config/exclude-node.ts';
import type { FleetView } from '../../domain/fleet/node-status.ts';
import { laggingNodes, mayHaveOthers, WAIT_GOALS, type WaitGoal } from '../../domain/fleet/turn.ts';
import { AppError } from '../../platform/app-error.ts';
import { withEither } from '../../platform/async/abort.ts';
import { defined } from '../../platform/defined.ts';
import { cliError } from '../context/cli-error.ts';
import type { CommandContext } from '../context/command-context.ts';
import { releaseOf, timeoutOf } from '../context/option-values.ts';
import { renderFleet, waitLine } from '../output/render/render-fleet.ts';
import { type JsonFlag, jsonText, printMessage, wrapLines } from '../output/text.ts';
import type { Request } from './node/requests.ts';

export function registerFleetStatus(fleet: Command, context: CommandContext): void {
  fleet
    .command('status')
    .description('show the releases of all nodes of the cluster')
    .option('--json', 'print as JSON')
    .action(async (options: JsonFlag) => {
      const { watchFleet } = await context.adapters();
      for await (const view of watchFleet(context.signal)) {
        context.stdout(options.json ? jsonText(fleetDocument(view)) : renderFleet(view, context.now(), context));
        return;
      }
    });
}

export function registerFleetKey(fleet: Command, context: CommandContext): void {
  fleet
    .command('key')
    .description('print the line of this node for fleet.keys_file')
    .action(async () => {
      const { fleetKeyLine } = await context.adapters();
      context.stdout(`${await fleetKeyLine(context.signal)}\n`);
    });
}

export const FLEET_REQUESTS: readonly Request[] = [
  {
    name: 'pause',
    description: 'begin no activation of a release on any node of the cluster',
    argument: ['<release>', 'NAME, or NAME@VERSION'],
    options: [
      ['--why <text>', 'why, in at most 100 characters; all nodes show it', 'required'],
      ['--for <duration>', 'how long, as "2 h"; at most 7 days (default: 4 h)'],
    ],
    send: ({ client, argument: release, flags: { why = '', for: time }, signal }) => {
      const seconds = time === undefined ? undefined : Math.max(1, Math.ceil(timeoutOf(time, '--for') / 1_000));
      return client.pauseRollOut({ release, why, options: defined({ seconds }) }, signal);
    },
  },
  {
    name: 'resume',
    description: 'lift a pause on all nodes, on the node that said it or on one of the control plane',
    argument: ['[id]', "the id of the pause, from 'stickpin fleet status' on any node"],
    options: [['--all', 'lift all pauses that may be lifted on this node']],
    faultOf: (id, { all }) =>
      (id === '') === (all === undefined) && "name one pause by its id, or all of them with '--all'",
    send: ({ client, argument: id, signal }) => client.resumeRollOut({ id: id || 'all' }, signal),
  },
];

export function registerFleetRemove(fleet: Command, context: CommandContext): void {
  fleet
    .command('remove')
    .description('do not wait for a node, and take nothing from it and give it nothing, on this node')
    .argument(
      '<node>',
      "the name of a node, or sha256:… of its certificate or key, from 'stickpin fleet status --json'",
    )
    .option('--json', 'print as JSON')
    .action(async (node: string, options: JsonFlag) => {
      const { watchFleet } = await context.adapters();
      for await (const view of watchFleet(context.signal)) {
        refuseUnknown(node, view);
        const path = await excludeNode(context.settingsSources, node, context.signal);
        const message = `${node} is removed on this node, which does not wait for it any more, takes nothing from it and gives it nothing. Run this on every other node too. To take it back, remove its name from ${path}.`;
        printMessage(message, options, context);
        return;
      }
    });
}

function refuseUnknown(node: string, { self, nodes, peers, removed = [] }: FleetView): void {
  if (node === self) throw cliError('cli/no-node', `${node} is this node: run this on the other ones`);
  if (removed.includes(node)) throw cliError('cli/no-node', `${node} was removed before (fleet.exclude)`);
  const others = [...new Set([...nodes.map(({ name }) => name), ...peers.map(({ name }) => name)])];
  if (others.includes(node) || peers.some(({ certificate }) => certificate === node)) return;
  const known = others.filter((name) => name !== self);
  const text = known.length === 0 ? 'it knows no other node' : `it knows ${known.join(', ')}`;
  throw cliError(
    'cli/no-node',
    `this node knows no node ${node}; ${text}. Set fleet.exclude to remove one before it is known`,
  );
}

interface WaitOptions {
  readonly for: WaitGoal;
  readonly timeout: string;
  readonly json?: true;
}

export function registerFleetWait(fleet: Command, context: CommandContext): void {
  fleet
    .command('wait')
    .description('wait until all nodes of the cluster have a release')
    .argument('<release>', 'NAME@VERSION')
    .addOption(new Option('--for <phase>', 'how far each node has to be').choices([...WAIT_GOALS]).default('ready'))
    .option('--timeout <duration>', 'give up after this time, as "30 min"; 0 asks once', '1 h')
    .option('--json', 'print as JSON')
    .action((release: string, options: WaitOptions) => wait(release, options, context));
}

/** Pause before the fleet process is called again. */
const AGAIN_MS = 1_000;

async function wait(text: string, options: WaitOptions, context: CommandContext): Promise<void> {
  const wanted = releaseOf(text);
  const timeoutMs = timeoutOf(options.timeout);
  const { watchFleet } = await context.adapters();
  let line = '';
  const printLine = (next: string) => {
    if (next !== line) context.stderr(wrapLines(`${next}\n`, context.stderrColumns, 4));
    line = next;
  };
  const follow = async (signal: AbortSignal) => {
    for await (const view of watchFleet(signal)) {
      const lagging = laggingNodes(view.nodes, wanted, options.for);
      printLine(waitLine(lagging, view));
      if (lagging.length === 0 && !mayHaveOthers(view)) return;
      if (timeoutMs === 0) throw timedOut(text, line);
    }
  };
  /** The fleet process may start anew meanwhile, as after a change of its settings. */
  const followOn = async (signal: AbortSignal): Promise<void> => {
    for (;;) {
      try {
        return await follow(signal);
      } catch (error) {
        if (timeoutMs === 0 || !isAway(error)) throw error;
        printLine(`${error.message}. It is asked again.`);
      }
      await delay(AGAIN_MS, undefined, { signal });
    }
  };
  const clock = timeoutMs === 0 ? undefined : AbortSignal.timeout(timeoutMs);
  try {
    await (clock === undefined ? follow(context.signal) : withEither([context.signal, clock], followOn));
  } catch (error) {
    context.signal.throwIfAborted();
    throw clock?.aborted === true ? timedOut(text, line) : error;
  }
  printMessage(`${text} is ${options.for} on all nodes`, options, context);
}

function isAway(error: unknown): error is AppError {
  return error instanceof AppError && error.code === 'fleet/unreachable' && error.disposition === 'retry';
}

function timedOut(release: string, line: string): AppError {
  const state = line === '' ? 'stickpin-fleet.service sent nothing' : line;
  return cliError('cli/timeout', `${release} is not there in time: ${state}`);
}

/** A {@link FleetView} with times in RFC 3339. */
function fleetDocument({ nodes, peers, ...view }: FleetView): object {
  const textOf = (ms: number | undefined) => (ms === undefined ? undefined : new Date(ms).toISOString());
  return {
    ...view,
    peers: peers.map(({ since, ...peer }) => defined({ ...peer, since: textOf(since) })),
    nodes: nodes.map(({ seenAt, ...node }) => defined({ ...node, seenAt: textOf(seenAt) })),
  };
}

import { resolve } from 'node:path';
import type { Command } from 'commander';
import type { ApiClient } from '../../../api/client.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { withDaemon } from '../../context/daemon-client.ts';
import { printMessage } from '../../output/message.ts';

/**
 * A command that makes one call to the daemon, with at most one argument and without a question.
 * With `--json` it prints `{"message": …}`.
 */
interface Request {
  readonly name: string;
  readonly description: string;
  /** In the form of Commander: `<bundle>`, or `[name]` when it is optional. */
  readonly argument?: { readonly usage: string; readonly description: string };
  /** Resolves to the text to print. `argument` is empty when it was left out. */
  readonly ask: (client: ApiClient, argument: string, signal: AbortSignal) => Promise<string>;
}

const REQUESTS: readonly Request[] = [
  {
    name: 'rollback',
    description: 'activate the fallback again: the proven release before the present one',
    argument: { usage: '[name]', description: 'NAME of the release stream, if there is more than one' },
    ask: async (client, stream, signal) => {
      const bundle = await client.rollback({ stream }, signal);
      return `Activation of ${bundle} was asked for; 'stickpin status' shows how it goes.`;
    },
  },
  {
    name: 'cancel',
    description: 'stop every preload; it continues when its stick is plugged in again, or after rescan',
    ask: async (client, _argument, signal) => {
      await client.cancel({}, signal);
      return "Every preload is stopped. 'stickpin rescan' continues it.";
    },
  },
  {
    name: 'approve',
    description: 'approve a bundle by its digest, before its stick arrives or while it waits for approval',
    argument: { usage: '<bundle>', description: 'the digest of the bundle, or NAME@VERSION of one that is plugged in' },
    ask: (client, bundle, signal) => client.approve({ bundle }, signal),
  },
  {
    name: 'prove',
    description: 'count the current release of a stream as proven, when its containers can not be seen',
    argument: { usage: '<bundle>', description: 'NAME@VERSION, or the digest of the bundle' },
    ask: (client, bundle, signal) => client.prove({ bundle }, signal),
  },
  {
    name: 'rescan',
    description: 'look at all media and the runtime again, and continue what was cancelled',
    ask: async (client, _argument, signal) => {
      await client.rescan({}, signal);
      return "All media and the runtime are read again; 'stickpin status' shows what is found.";
    },
  },
  {
    name: 'load',
    description: 'read a medium that is not detected automatically, until it is gone or the daemon restarts',
    argument: {
      usage: '<path>',
      description:
        'a directory with stickpin/ in it, a bundle directory, a .stickpin.tar file, or a device as /dev/sdb1',
    },
    ask: async (client, path, signal) => {
      const label = await client.load({ path: resolve(path) }, signal);
      return `${label} is being read; 'stickpin status' shows how it goes. It is forgotten when it disappears or when the daemon restarts.`;
    },
  },
];

/** Adds every command of the table to the program. */
export function registerRequests(program: Command, context: CommandContext): void {
  for (const request of REQUESTS) registerRequest(request, program, context);
}

function registerRequest(request: Request, program: Command, context: CommandContext): void {
  const command = program.command(request.name).description(request.description);
  if (request.argument !== undefined) command.argument(request.argument.usage, request.argument.description);
  command.option('--json', 'print as JSON');
  command.action(() =>
    withDaemon(context, async (client) => {
      const message = await request.ask(client, command.args[0] ?? '', context.signal);
      printMessage(message, command.opts<{ readonly json?: true }>(), context);
    }),
  );
}

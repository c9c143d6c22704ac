import { resolve } from 'node:path';
import type { Command } from 'commander';
import type { ApiClient } from '../../../api/client.ts';
import { defined } from '../../../platform/defined.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { confirmFirst, confirmOrDecline } from '../../context/confirm.ts';
import { withDaemon } from '../../context/daemon-client.ts';
import { printMessage } from '../../output/text.ts';

/** The flags of all requests. Each has those of its `options`, and `--json`. */
interface Flags {
  readonly all?: true;
  readonly component?: string;
  readonly for?: string;
  readonly force?: true;
  readonly json?: true;
  readonly reason?: string;
  readonly removeImages?: true;
  readonly unclaimed?: true;
  readonly why?: string;
  readonly yes?: true;
}

interface Call {
  readonly client: ApiClient;
  /** It is empty when it was left out. */
  readonly argument: string;
  readonly flags: Flags;
  readonly context: CommandContext;
  readonly signal: AbortSignal;
}

/** A command that sends a request to the daemon, and prints the answer. */
export interface Request {
  readonly name: string;
  readonly description: string;
  /** The form is that of Commander: `<bundle>`, or `[name]` when it is optional. */
  readonly argument?: readonly [usage: string, description: string];
  readonly options?: readonly (readonly [flags: string, description: string, must?: 'required'])[];
  /** Returns what is wrong with the call. */
  readonly faultOf?: (argument: string, flags: Flags) => string | false;
  /** Resolves to the text to print. */
  readonly send: (call: Call) => Promise<string>;
}

export function registerRequests(requests: readonly Request[], program: Command, context: CommandContext): void {
  for (const { name, description, argument, options = [], faultOf, send } of requests) {
    const command = program.command(name).description(description);
    if (argument !== undefined) command.argument(...argument);
    for (const [flags, about, must] of options) {
      if (must === 'required') command.requiredOption(flags, about);
      else command.option(flags, about);
    }
    command.option('--json', 'print as JSON').action(() => {
      const [given = ''] = command.args;
      const flags = command.opts<Flags>();
      const fault = faultOf?.(given, flags) || undefined;
      if (fault !== undefined) command.error(`error: ${fault}`, { exitCode: 2 });
      return withDaemon(context, async (client) => {
        const message = await send({ client, argument: given, flags, context, signal: context.signal });
        printMessage(message, flags, context);
      });
    });
  }
}

const BUNDLE = 'NAME@VERSION, or the digest of the bundle';
const YES = ['-y, --yes', 'the same as --force'] as const;

export const NODE_REQUESTS: readonly Request[] = [
  {
    name: 'activate',
    description: 'start to use a release that is ready (its tags then point to its images)',
    argument: ['<bundle>', BUNDLE],
    options: [['--force', 'do not ask, even if rules, a closed window or a wrong clock hold it']],
    send: async ({ client, argument: bundle, flags: { force = false }, context, signal }) => {
      const go = (override: boolean) => client.activate({ bundle, options: { override } }, signal);
      await confirmOrDecline(go, force, context, {
        code: 'engine/activation-held',
        consequence: `If you activate ${bundle}, its tags point to its images from then on`,
        question: 'Activate it anyway?',
        unchanged: `${bundle} is not activated`,
      });
      return `Activation of ${bundle} was asked for; 'stickpin status' shows how it goes.`;
    },
  },
  {
    name: 'rollback',
    description: 'activate the fallback again: the proven release before the present one',
    argument: ['[name]', 'NAME of the release stream, if there is more than one'],
    send: async ({ client, argument: stream, signal }) => {
      const bundle = await client.rollback({ stream }, signal);
      return `Activation of ${bundle} was asked for; 'stickpin status' shows how it goes.`;
    },
  },
  {
    name: 'cancel',
    description: 'stop every preload; it continues when its stick is plugged in again, or after rescan',
    send: async ({ client, signal }) => {
      await client.cancel({}, signal);
      return "Every preload is stopped. 'stickpin rescan' continues it.";
    },
  },
  {
    name: 'approve',
    description: 'approve a bundle by its digest, before its stick arrives or while it waits for approval',
    argument: ['<bundle>', 'the digest of the bundle, or NAME@VERSION of one that is plugged in'],
    send: ({ client, argument: bundle, signal }) => client.approve({ bundle }, signal),
  },
  {
    name: 'rescan',
    description: 'look at all media and the runtime again, continue what was cancelled, and run failed hooks again',
    send: async ({ client, signal }) => {
      await client.rescan({}, signal);
      return "All media and the runtime are read again; 'stickpin status' shows what is found.";
    },
  },
  {
    name: 'load',
    description: 'read a medium that is not detected automatically, until it is gone or the daemon restarts',
    argument: [
      '<path>',
      'a directory with stickpin/ in it, a bundle directory, a .stickpin.tar file, or a device as /dev/sdb1',
    ],
    send: async ({ client, argument: path, signal }) => {
      const label = await client.load({ path: resolve(path) }, signal);
      return `${label} is being read; 'stickpin status' shows how it goes. It is forgotten when it disappears or when the daemon restarts.`;
    },
  },
  {
    name: 'prove',
    description: 'count the current release of a stream as proven, when its containers can not be seen',
    argument: ['<bundle>', BUNDLE],
    options: [
      ['--component <name>', 'count only this component, that no container runs, as running until the next boot'],
    ],
    send: ({ client, argument: bundle, flags: { component }, signal }) =>
      client.prove({ bundle, options: defined({ component }) }, signal),
  },
  {
    name: 'reject',
    description: 'reject a bundle, or stop one that was adopted; what is pinned stays pinned',
    argument: ['<bundle>', 'the digest of the bundle, or NAME@VERSION, also of one whose stick has not come yet'],
    options: [
      ['--reason <text>', 'why; it is kept and shown'],
      ['--force', 'do not ask, even if the bundle was adopted'],
      YES,
    ],
    send: async ({ client, argument: bundle, flags: { reason, force, yes }, context, signal }) => {
      if (force !== true && yes !== true) await confirmAdopted(bundle, client, context);
      return client.reject({ bundle, options: defined({ reason }) }, signal);
    },
  },
  {
    name: 'unpin',
    description: 'give up a release: its images are no longer pinned',
    argument: ['[bundle]', BUNDLE],
    options: [
      ['--unclaimed', 'give up all pins that belong to no known release instead; their images stay'],
      ['--remove-images', 'also remove its images that no other release names and no container uses'],
      ['--force', 'do not ask, even if the release runs or is the last known good one'],
    ],
    faultOf: (bundle, { unclaimed, removeImages }) => {
      if (unclaimed === undefined) return bundle === '' && "missing argument 'bundle', or --unclaimed";
      if (bundle !== '') return '--unclaimed takes no bundle';
      return removeImages === true && '--unclaimed removes no images';
    },
    send: async ({
      client,
      argument: bundle,
      flags: { unclaimed, removeImages = false, force = false },
      context,
      signal,
    }) => {
      const go = (isForced: boolean) =>
        unclaimed
          ? client.unpinUnclaimed({ options: { force: isForced } }, signal)
          : client.unpin({ bundle, options: { removeImages, force: isForced } }, signal);
      const question = unclaimed
        ? {
            consequence: 'If you give up the unclaimed pins, their images can be collected',
            question: 'Give them up anyway?',
            unchanged: 'the unclaimed pins stay',
          }
        : {
            consequence: `If you unpin ${bundle}, its images ${removeImages ? 'are removed' : 'can be collected'}`,
            question: 'Unpin it anyway?',
            unchanged: `${bundle} stays pinned`,
          };
      return `${await confirmOrDecline(go, force, context, { code: 'engine/running', ...question })}.`;
    },
  },
];

/** Needs a confirmation when the bundle, or one of this name, was adopted and is not retired. */
async function confirmAdopted(named: string, client: ApiClient, context: CommandContext): Promise<void> {
  const { bundles, notices } = await client.report(context.signal);
  const releases = bundles.filter(({ adoptedAt, phase }) => adoptedAt !== undefined && phase !== 'retired');
  const adopted = [...releases, ...notices].find(
    ({ bundleId, name, version }) => bundleId === named || `${name}@${version}` === named,
  );
  if (adopted === undefined) return;
  const title = `${adopted.name}@${adopted.version}`;
  const [is, then] =
    'phase' in adopted
      ? [`it is ${adopted.phase}`, 'it is no longer loaded or activated, and its pins stay']
      : ['it has no images', 'its advisories about other releases count no more, and its changes of keys stay'];
  await confirmFirst(context, {
    consequence: `If you reject ${title}, which this node has adopted (${is}), ${then}; 'stickpin approve' takes that back`,
    question: 'Reject it?',
    unchanged: `${title} is not rejected`,
  });
}

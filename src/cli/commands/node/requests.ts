import { resolve } from 'node:path';
import type { Command } from 'commander';
import type { ApiClient } from '../../../api/client.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { confirmFirst, confirmOrDecline } from '../../context/confirm.ts';
import { withDaemon } from '../../context/daemon-client.ts';
import { printMessage } from '../../output/text.ts';

/** One call to the daemon, with at most one argument and without a question. */
interface Request {
  readonly name: string;
  readonly description: string;
  /** In the form of Commander: `<bundle>`, or `[name]` when it is optional. */
  readonly argument?: { readonly usage: string; readonly description: string };
  /** Resolves to the text to print. `argument` is empty when it was left out. */
  readonly send: (client: ApiClient, argument: string, signal: AbortSignal) => Promise<string>;
}

const REQUESTS: readonly Request[] = [
  {
    name: 'rollback',
    description: 'activate the fallback again: the proven release before the present one',
    argument: { usage: '[name]', description: 'NAME of the release stream, if there is more than one' },
    send: async (client, stream, signal) => {
      const bundle = await client.rollback({ stream }, signal);
      return `Activation of ${bundle} was asked for; 'stickpin status' shows how it goes.`;
    },
  },
  {
    name: 'cancel',
    description: 'stop every preload; it continues when its stick is plugged in again, or after rescan',
    send: async (client, _argument, signal) => {
      await client.cancel({}, signal);
      return "Every preload is stopped. 'stickpin rescan' continues it.";
    },
  },
  {
    name: 'approve',
    description: 'approve a bundle by its digest, before its stick arrives or while it waits for approval',
    argument: { usage: '<bundle>', description: 'the digest of the bundle, or NAME@VERSION of one that is plugged in' },
    send: (client, bundle, signal) => client.approve({ bundle }, signal),
  },
  {
    name: 'rescan',
    description: 'look at all media and the runtime again, and continue what was cancelled',
    send: async (client, _argument, signal) => {
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
    send: async (client, path, signal) => {
      const label = await client.load({ path: resolve(path) }, signal);
      return `${label} is being read; 'stickpin status' shows how it goes. It is forgotten when it disappears or when the daemon restarts.`;
    },
  },
];

export function registerRequests(program: Command, context: CommandContext): void {
  for (const request of REQUESTS) registerRequest(request, program, context);
}

function registerRequest(request: Request, program: Command, context: CommandContext): void {
  const command = program.command(request.name).description(request.description);
  if (request.argument !== undefined) command.argument(request.argument.usage, request.argument.description);
  command.option('--json', 'print as JSON');
  command.action(() =>
    withDaemon(context, async (client) => {
      const message = await request.send(client, command.args[0] ?? '', context.signal);
      printMessage(message, command.opts<{ readonly json?: true }>(), context);
    }),
  );
}

export function registerActivate(program: Command, context: CommandContext): void {
  program
    .command('activate')
    .description('start to use a release that is ready (its tags then point to its images)')
    .argument('<bundle>', 'NAME@VERSION, or the digest of the bundle')
    .option('--force', 'do not ask, even if rules, a closed window or a wrong clock hold it')
    .option('--json', 'print as JSON')
    .action((bundle: string, { force = false, json }: { readonly force?: boolean; readonly json?: true }) =>
      withDaemon(context, async (client) => {
        const go = (override: boolean) =>
          override ? client.activateOverride({ bundle }, context.signal) : client.activate({ bundle }, context.signal);
        await confirmOrDecline(go, force, context, {
          code: 'engine/activation-held',
          consequence: `If you activate ${bundle}, its tags point to its images from then on`,
          question: 'Activate it anyway?',
          unchanged: `${bundle} is not activated`,
        });
        printMessage(`Activation of ${bundle} was asked for; 'stickpin status' shows how it goes.`, { json }, context);
      }),
    );
}

export function registerProve(program: Command, context: CommandContext): void {
  program
    .command('prove')
    .description('count the current release of a stream as proven, when its containers can not be seen')
    .argument('<bundle>', 'NAME@VERSION, or the digest of the bundle')
    .option('--component <name>', 'count only this component, that no container runs, as running until the next boot')
    .option('--json', 'print as JSON')
    .action((bundle: string, { component, json }: { readonly component?: string; readonly json?: true }) =>
      withDaemon(context, async (client) => {
        const { signal } = context;
        const message = await (component === undefined
          ? client.prove({ bundle }, signal)
          : client.proveComponent({ bundle, component }, signal));
        printMessage(message, { json }, context);
      }),
    );
}

interface RejectFlags {
  readonly reason?: string;
  readonly force?: true;
  readonly yes?: true;
  readonly json?: true;
}

export function registerReject(program: Command, context: CommandContext): void {
  program
    .command('reject')
    .description('reject a bundle, or stop one that was adopted; what is pinned stays pinned')
    .argument('<bundle>', 'the digest of the bundle, or NAME@VERSION, also of one whose stick has not come yet')
    .option('--reason <text>', 'why; it is kept and shown')
    .option('--force', 'do not ask, even if the bundle was adopted')
    .option('-y, --yes', 'the same as --force')
    .option('--json', 'print as JSON')
    .action((bundle: string, flags: RejectFlags) =>
      withDaemon(context, async (client) => {
        const { reason } = flags;
        if (flags.force !== true && flags.yes !== true) await confirmAdopted(bundle, client, context);
        const message =
          reason === undefined
            ? await client.reject({ bundle }, context.signal)
            : await client.rejectWithReason({ bundle, reason }, context.signal);
        printMessage(message, flags, context);
      }),
    );
}

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

interface UnpinFlags {
  readonly removeImages?: true;
  readonly force?: true;
  readonly unclaimed?: true;
  readonly json?: true;
}

export function registerUnpin(program: Command, context: CommandContext): void {
  program
    .command('unpin')
    .description('give up a release: its images are no longer pinned')
    .argument('[bundle]', 'NAME@VERSION, or the digest of the bundle')
    .option('--unclaimed', 'give up all pins that belong to no known release instead; their images stay')
    .option('--remove-images', 'also remove its images that no other release names and no container uses')
    .option('--force', 'do not ask, even if the release runs or is the last known good one')
    .option('--json', 'print as JSON')
    .action((bundle: string | undefined, flags: UnpinFlags, command: Command) => {
      refuseContradictions(bundle, flags, command);
      return withDaemon(context, async (client) => {
        printMessage(`${await unpin(client, bundle, flags, context)}.`, flags, context);
      });
    });
}

function refuseContradictions(bundle: string | undefined, flags: UnpinFlags, command: Command): void {
  if (flags.unclaimed === undefined) {
    if (bundle === undefined) command.error("error: missing argument 'bundle', or --unclaimed", { exitCode: 2 });
    return;
  }
  if (bundle !== undefined) command.error('error: --unclaimed takes no bundle', { exitCode: 2 });
  if (flags.removeImages) command.error('error: --unclaimed removes no images', { exitCode: 2 });
}

async function unpin(
  client: ApiClient,
  bundle: string | undefined,
  flags: UnpinFlags,
  context: CommandContext,
): Promise<string> {
  const { removeImages = false, force = false } = flags;
  if (bundle === undefined) {
    let done = '';
    const go = async (isForced: boolean) => {
      done = await client.unpinUnclaimed({ force: isForced }, context.signal);
    };
    await confirmOrDecline(go, force, context, {
      code: 'engine/running',
      consequence: 'If you give up the unclaimed pins, their images can be collected',
      question: 'Give them up anyway?',
      unchanged: 'the unclaimed pins stay',
    });
    return done;
  }
  let done = '';
  const go = async (isForced: boolean) => {
    done = await client.unpin({ bundle, removeImages, force: isForced }, context.signal);
  };
  await confirmOrDecline(go, force, context, {
    code: 'engine/running',
    consequence: `If you unpin ${bundle}, its images ${removeImages ? 'are removed' : 'can be collected'}`,
    question: 'Unpin it anyway?',
    unchanged: `${bundle} stays pinned`,
  });
  return done;
}

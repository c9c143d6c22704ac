import type { Command } from 'commander';
import type { ApiClient } from '../../../api/client.ts';
import { revokerText } from '../../../domain/report/texts/revoker-text.ts';
import type { TrustReport } from '../../../domain/trust/trust-in-force.ts';
import { AppError } from '../../../platform/app-error.ts';
import { oneLine } from '../../../platform/plain-text.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { withDaemon } from '../../context/daemon-client.ts';
import { jsonText } from '../../output/json.ts';
import { printMessage } from '../../output/message.ts';
import { roleText } from '../../output/render/role-text.ts';
import { formatTable, type Layout } from '../../output/table.ts';
import { wrapLines } from '../../output/wrap-words.ts';

interface ChangeFlags {
  readonly force?: true;
  readonly yes?: true;
  readonly json?: true;
}

/** A command that changes what this node trusts, and asks before it does. */
interface Change {
  readonly about: string;
  /** The argument in `--help`, and what it is. */
  readonly argument: readonly [name: string, about: string];
  /** What follows, for the question. */
  readonly consequence: (subject: string) => string;
  readonly question: string;
  /** What stays after a no. */
  readonly unchanged: string;
  /** Resolves to a sentence about what was done. */
  readonly ask: (client: ApiClient, subject: string, signal: AbortSignal) => Promise<string>;
}

const CHANGES: Readonly<Record<string, Change>> = {
  revoke: {
    about: 'revoke a key on this node; asks first',
    argument: ['<keyid>', "the key's id, or at least the first 12 digits of a trusted one"],
    consequence: (keyId) => `bundles that key ${keyId} signed are not trusted any more`,
    question: 'Revoke the key?',
    unchanged: 'the key is not revoked',
    ask: (client, keyId, signal) => client.revokeKey({ keyId }, signal),
  },
  restore: {
    about: 'remove the stored revocation of a key; asks first',
    argument: ['<keyid>', "the key's id, or at least its first 12 digits; stickpin trust list shows it"],
    consequence: (keyId) => `bundles that key ${keyId} signed may be trusted again`,
    question: 'Restore the key?',
    unchanged: 'the key stays revoked',
    ask: (client, keyId, signal) => client.restoreKey({ keyId }, signal),
  },
  reset: {
    about: 'allow older bundles of a stream again, and forget keys that its bundles added; asks first',
    argument: ['<stream>', 'the name of the stream; stickpin list shows it'],
    consequence: (stream) =>
      `older bundles of stream ${stream} may be adopted again, and keys that its bundles added no longer count`,
    question: 'Reset the stream?',
    unchanged: 'the stream stays as it is',
    ask: (client, stream, signal) => client.resetStream({ stream }, signal),
  },
};

/** Adds `trust list`, `revoke`, `restore` and `reset` to the program. */
export function registerTrust(program: Command, context: CommandContext): void {
  const trust = program
    .command('trust')
    .description('show the keys that this node trusts or has revoked, and change that');
  trust
    .command('list')
    .description('show trusted and revoked keys with their ids')
    .option('--json', 'print as JSON')
    .action((options: { readonly json?: true }) =>
      withDaemon(context, async (client) => {
        const { trust: report } = await client.report(context.signal);
        context.stdout(options.json ? jsonText(report) : asText(report, context));
      }),
    );
  for (const [name, change] of Object.entries(CHANGES)) registerChange(trust, name, change, context);
}

function registerChange(trust: Command, name: string, change: Change, context: CommandContext): void {
  trust
    .command(name)
    .description(change.about)
    .argument(...change.argument)
    .option('--force', `${name} it without a question`)
    .option('-y, --yes', 'the same as --force')
    .option('--json', 'print as JSON')
    .action((subject: string, flags: ChangeFlags) =>
      withDaemon(context, async (client) => {
        if (flags.force !== true && flags.yes !== true) await confirm(change, subject, context);
        const message = await change.ask(client, subject, context.signal);
        printMessage(message, flags, context);
      }),
    );
}

async function confirm(
  { consequence, question, unchanged }: Change,
  subject: string,
  { confirm: ask, signal }: CommandContext,
): Promise<void> {
  const what = consequence(oneLine(subject));
  if (ask === undefined) throw declined(`${what}; nothing was changed. Give --force to do it anyway`);
  if (await ask(`${what}. ${question}`, signal)) return;
  throw declined(`nothing was changed: ${unchanged}`);
}

function declined(message: string): AppError {
  return new AppError({ code: 'cli/declined', message, disposition: 'reject' });
}

function asText({ keys, roles = [], revoked, problems }: TrustReport, layout: Layout): string {
  const rows = [
    ...keys.map(({ name, keyId, broughtBy }) => [
      keyId,
      'trusted',
      broughtBy === undefined ? oneLine(`${name}.pub`) : oneLine(`${name}, added by bundle ${broughtBy}`),
    ]),
    ...roles.flatMap((role) =>
      role.keys.map(({ name, keyId, broughtBy }) => [
        keyId,
        `in role ${role.name}`,
        broughtBy === undefined ? oneLine(name) : oneLine(`${name}, added by bundle ${broughtBy}`),
      ]),
    ),
    ...revoked.map((one) => [one.keyId, 'revoked', oneLine(revokerText(one))]),
  ];
  const table =
    rows.length === 0 ? 'No key is trusted or revoked.\n' : formatTable(['KEY ID', 'STATE', 'FROM'], rows, layout);
  const lines = [...roles.map(roleText), ...problems].map((line) => `${oneLine(line)}\n`);
  return `${table}${wrapLines(lines.join(''), layout.columns, 4)}`;
}

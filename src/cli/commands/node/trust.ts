import type { Command } from 'commander';
import type { TrustReport } from '../../../domain/trust/trust-in-force.ts';
import { AppError } from '../../../platform/app-error.ts';
import { oneLine } from '../../../platform/plain-text.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { withDaemon } from '../../context/daemon-client.ts';
import { roleText } from '../../output/role-text.ts';
import { formatTable } from '../../output/table.ts';

interface RestoreFlags {
  readonly force?: true;
  readonly yes?: true;
  readonly json?: true;
}

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
        context.stdout(options.json ? `${JSON.stringify(report)}\n` : asText(report));
      }),
    );
  trust
    .command('restore')
    .description('remove the stored revocation of a key; asks first')
    .argument('<keyid>', "the key's id, or at least its first 12 digits; stickpin trust list shows it")
    .option('--force', 'restore it without a question')
    .option('-y, --yes', 'the same as --force')
    .option('--json', 'print as JSON')
    .action((keyId: string, flags: RestoreFlags) =>
      withDaemon(context, async (client) => {
        const what = `bundles that key ${oneLine(keyId)} signed may be trusted again`;
        const question = { what, question: 'Restore the key?', unchanged: 'the key stays revoked' };
        if (flags.force !== true && flags.yes !== true) await confirm(question, context);
        const message = await client.restoreKey({ keyId }, context.signal);
        context.stdout(flags.json ? `${JSON.stringify({ message })}\n` : `${message}\n`);
      }),
    );
  registerRevoke(trust, context);
  registerReset(trust, context);
}

function registerRevoke(trust: Command, context: CommandContext): void {
  trust
    .command('revoke')
    .description('revoke a key on this node; asks first')
    .argument('<keyid>', "the key's id, or at least the first 12 digits of a trusted one")
    .option('--force', 'revoke it without a question')
    .option('-y, --yes', 'the same as --force')
    .option('--json', 'print as JSON')
    .action((keyId: string, flags: RestoreFlags) =>
      withDaemon(context, async (client) => {
        const what = `bundles that key ${oneLine(keyId)} signed are not trusted any more`;
        const question = { what, question: 'Revoke the key?', unchanged: 'the key is not revoked' };
        if (flags.force !== true && flags.yes !== true) await confirm(question, context);
        const message = await client.revokeKey({ keyId }, context.signal);
        context.stdout(flags.json ? `${JSON.stringify({ message })}\n` : `${message}\n`);
      }),
    );
}

function registerReset(trust: Command, context: CommandContext): void {
  trust
    .command('reset')
    .description('reset the floors of a stream, and forget the keys that its bundles brought; asks first')
    .argument('<stream>', 'the name of the stream; stickpin list shows it')
    .option('--force', 'reset it without a question')
    .option('-y, --yes', 'the same as --force')
    .option('--json', 'print as JSON')
    .action((stream: string, flags: RestoreFlags) =>
      withDaemon(context, async (client) => {
        const what = `older bundles of stream ${oneLine(stream)} may be adopted again, and keys that its bundles brought no longer count`;
        const question = { what, question: 'Reset the stream?', unchanged: 'the stream stays as it is' };
        if (flags.force !== true && flags.yes !== true) await confirm(question, context);
        const message = await client.resetStream({ stream }, context.signal);
        context.stdout(flags.json ? `${JSON.stringify({ message })}\n` : `${message}\n`);
      }),
    );
}

interface Question {
  /** What follows. */
  readonly what: string;
  readonly question: string;
  /** What stays after a no. */
  readonly unchanged: string;
}

async function confirm(
  { what, question, unchanged }: Question,
  { confirm: ask, signal }: CommandContext,
): Promise<void> {
  if (ask === undefined) {
    throw declined(`${what}; nothing was changed. Give --force if you mean it`);
  }
  if (await ask(`${what}. ${question}`, signal)) return;
  throw declined(`nothing was changed: ${unchanged}`);
}

function declined(message: string): AppError {
  return new AppError({ code: 'cli/declined', message, disposition: 'reject' });
}

function asText({ keys, roles = [], revoked, problems }: TrustReport): string {
  const rows = [
    ...keys.map(({ name, keyId, broughtBy }) => [
      keyId,
      'trusted',
      broughtBy === undefined ? oneLine(`${name}.pub`) : `brought by ${oneLine(broughtBy)}`,
    ]),
    ...roles.flatMap((role) =>
      role.keys.map(({ name, keyId, broughtBy }) => [
        keyId,
        `in role ${role.name}`,
        broughtBy === undefined ? oneLine(name) : `brought by ${oneLine(broughtBy)}`,
      ]),
    ),
    ...revoked.map((one) => [one.keyId, 'revoked', oneLine(revokedWhere(one))]),
  ];
  const table = rows.length === 0 ? 'No key is trusted or revoked.\n' : formatTable(['KEY ID', 'STATE', 'FROM'], rows);
  const lines = [...roles.map(roleText), ...problems].map((line) => `${oneLine(line)}\n`);
  return `${table}${lines.join('')}`;
}

function revokedWhere({ file, byPerson, revokedBy, role }: TrustReport['revoked'][number]): string {
  if (file !== undefined) return file;
  if (byPerson) return 'stickpin trust revoke';
  if (revokedBy === undefined) return 'a file that is gone';
  return `bundle ${revokedBy}${role === undefined ? '' : `, in role ${role} only`}`;
}

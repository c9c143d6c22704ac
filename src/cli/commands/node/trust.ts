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

/** Adds `trust list` and `trust restore` to the program. */
export function registerTrust(program: Command, context: CommandContext): void {
  const trust = program
    .command('trust')
    .description('show the keys that this node trusts or has revoked, and restore a revoked one');
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
        if (flags.force !== true && flags.yes !== true) await confirm(keyId, context);
        const message = await client.restoreKey({ keyId }, context.signal);
        context.stdout(flags.json ? `${JSON.stringify({ message })}\n` : `${message}\n`);
      }),
    );
}

async function confirm(keyId: string, { confirm: ask, signal }: CommandContext): Promise<void> {
  const what = `bundles that key ${oneLine(keyId)} signed may be trusted again`;
  if (ask === undefined) {
    throw declined(`${what}; nothing was changed. Give --force if you mean it`);
  }
  if (await ask(`${what}. Restore the key?`, signal)) return;
  throw declined('nothing was changed: the key stays revoked');
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

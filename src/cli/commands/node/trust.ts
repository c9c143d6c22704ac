import type { Command } from 'commander';
import type { ApiClient } from '../../../api/client.ts';
import type { TrustReport } from '../../../domain/report/status-schema.ts';
import { revokerText } from '../../../domain/report/texts/short-texts.ts';
import { oneLine } from '../../../platform/plain-text.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { confirmFirst } from '../../context/confirm.ts';
import { withDaemon } from '../../context/daemon-client.ts';
import { allKeys, trustLines } from '../../output/render/render-show.ts';
import { formatTable } from '../../output/table.ts';
import { type JsonFlag, jsonText, type Layout } from '../../output/text.ts';
import { type Request, registerRequests } from './requests.ts';

/** The fewest digits that name a key. */
const MIN_DIGITS = 12;

interface Change {
  readonly about: string;
  /** The argument in `--help`, and what it is. */
  readonly argument: readonly [name: string, about: string];
  /** `key factory-2026 (5f0c1d2e3a4b…)`. */
  readonly title: (subject: string, trust: TrustReport) => string;
  /** Follows `If you … <title>, `. */
  readonly consequence: string;
  /** Ids of the trusted keys that no longer count then. */
  readonly lost?: (subject: string, trust: TrustReport) => readonly string[];
  readonly question: string;
  /** What stays unchanged after the answer no. */
  readonly unchanged: string;
  /** Resolves to a sentence about what was done. */
  readonly apply: (client: ApiClient, subject: string, signal: AbortSignal) => Promise<string>;
}

const CHANGES: Readonly<Record<string, Change>> = {
  revoke: {
    about: 'revoke a key on this node; asks first',
    argument: ['<keyid>', "the key's id, or at least the first 12 digits of a trusted one"],
    title: (named, trust) => {
      const [key] = namedKeys(named, trust);
      return key === undefined ? `key ${named}` : `key ${key.name} (${shortId(key)})`;
    },
    consequence: 'bundles that it signed are not trusted any more, unless enough other keys signed them',
    lost: (keyId, trust) => namedKeys(keyId, trust).map((key) => key.keyId),
    question: 'Revoke the key?',
    unchanged: 'the key is not revoked',
    apply: (client, keyId, signal) => client.revokeKey({ keyId }, signal),
  },
  restore: {
    about: 'remove the stored revocation of a key; asks first',
    argument: ['<keyid>', "the key's id, or at least its first 12 digits; stickpin trust list shows it"],
    title: (named, { revoked }) => {
      const key = revoked.find((one) => isNamed(one, named));
      return key === undefined ? `key ${named}` : `key ${shortId(key)}, which was revoked by ${revokerText(key)}`;
    },
    consequence: 'bundles that it signed may be trusted again',
    question: 'Restore the key?',
    unchanged: 'the key stays revoked',
    apply: (client, keyId, signal) => client.restoreKey({ keyId }, signal),
  },
  reset: {
    about: 'allow older bundles of a stream again, and forget keys that its bundles added; asks first',
    argument: ['<stream>', 'the name of the stream; stickpin list shows it'],
    title: (stream) => `stream ${stream}`,
    consequence: 'older bundles of it may be adopted again, and keys that its bundles added no longer count',
    lost: (stream, trust) =>
      allKeys(trust)
        .filter(({ broughtBy }) => broughtBy?.startsWith(`${stream}@`))
        .map(({ keyId }) => keyId),
    question: 'Reset the stream?',
    unchanged: 'the stream stays as it is',
    apply: (client, stream, signal) => client.resetStream({ stream }, signal),
  },
};

export function registerTrust(program: Command, context: CommandContext): void {
  const trust = program
    .command('trust')
    .description('show the keys that this node trusts or has revoked, and change that');
  trust
    .command('list')
    .description('show trusted and revoked keys with their ids')
    .option('--json', 'print as JSON')
    .action((options: JsonFlag) =>
      withDaemon(context, async (client) => {
        const { trust: report } = await client.report(context.signal);
        context.stdout(options.json ? jsonText(report) : asText(report, context));
      }),
    );
  registerRequests(Object.entries(CHANGES).map(requestFor), trust, context);
}

function requestFor([name, change]: readonly [string, Change]): Request {
  return {
    name,
    description: change.about,
    argument: change.argument,
    options: [
      ['--force', `${name} it without a question`],
      ['-y, --yes', 'the same as --force'],
    ],
    send: async ({ client, argument: subject, flags: { force, yes }, context, signal }) => {
      if (force !== true && yes !== true) {
        const { trust: report } = await client.report(signal);
        const consequence = `If you ${name} ${change.title(subject, report)}, ${change.consequence}${lastKeyWarning(change.lost?.(subject, report) ?? [], report)}`;
        await confirmFirst(context, { ...change, consequence: oneLine(consequence) });
      }
      return change.apply(client, subject, signal);
    },
  };
}

function namedKeys(named: string, trust: TrustReport): TrustReport['keys'] {
  return allKeys(trust).filter((key) => isNamed(key, named));
}

/** The daemon also accepts the id or its first digits. */
function isNamed({ keyId }: { readonly keyId: string }, named: string): boolean {
  const digits = named.toLowerCase().replace(/…$/, '');
  return digits.length >= MIN_DIGITS && keyId.startsWith(digits);
}

function shortId({ keyId }: { readonly keyId: string }): string {
  return `${keyId.slice(0, MIN_DIGITS)}…`;
}

/**
 * Warns when too few keys remain for any signature to be enough: a clause for the plain keys, and
 * one for each role. Returns an empty text when enough remain.
 */
function lastKeyWarning(lost: readonly string[], { keys, threshold, roles = [] }: TrustReport): string {
  const groups = [
    { name: 'this node', keys, threshold },
    ...roles.map((role) => ({ ...role, name: `role ${role.name}` })),
  ];
  return groups
    .map(({ name, keys: roleKeys, threshold: needed }) => {
      const ids = [...new Set(roleKeys.map(({ keyId }) => keyId))];
      const count = ids.filter((keyId) => !lost.includes(keyId)).length;
      if (count === ids.length || count >= needed) return '';
      const why = count === 0 ? `${name} has no trusted key then` : `${name} has ${count} of the ${needed} keys then`;
      return `. WARNING: ${why}, so no signature is enough`;
    })
    .join('');
}

function asText(trust: TrustReport, layout: Layout): string {
  const rows = [
    ...allKeys(trust).map(({ name, keyId, state, broughtBy }) => {
      const file = state === 'trusted' ? `${name}.pub` : name;
      return [keyId, state, oneLine(broughtBy === undefined ? file : `${name}, added by bundle ${broughtBy}`)];
    }),
    ...trust.revoked.map((one) => [one.keyId, 'revoked', oneLine(revokerText(one))]),
  ];
  const table =
    rows.length === 0 ? 'No key is trusted or revoked.\n' : formatTable(['KEY ID', 'STATE', 'FROM'], rows, layout);
  return `${table}${trustLines(trust, layout)}`;
}

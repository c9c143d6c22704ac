import { basename } from 'node:path';
import { type Command, Option } from 'commander';
import { bundleError } from '../../../bundle/bundle-error.ts';
import { parsePublicKey } from '../../../bundle/keys/keys.ts';
import { readKeyFile } from '../../../bundle/keys/trust.ts';
import { limits } from '../../../bundle/limits.ts';
import type { UpdateRules } from '../../../domain/model/bundle.ts';
import { VERSION_SCHEMES, type VersionScheme } from '../../../domain/model/version.ts';
import { isKeyName } from '../../../domain/trust/approval.ts';
import { isRoleName } from '../../../domain/trust/role.ts';
import type { FaultList } from '../../../platform/app-error.ts';
import { defined } from '../../../platform/defined.ts';
import { collect, collected, numberOption, textOption, timeOption } from '../../context/option-values.ts';

export interface ReleaseOptions {
  readonly versionScheme?: VersionScheme;
  readonly expires?: string;
  readonly from?: string;
  readonly barrier?: string;
  readonly deadend?: string;
  readonly endOfLife?: string;
  readonly rolloutStart?: string;
  readonly rolloutMinutes?: number;
  readonly rolloutFraction?: number;
  readonly order?: string;
  readonly manual?: true;
  readonly keep?: 'life';
  readonly advisory: readonly string[];
  readonly trustKey: readonly string[];
  readonly revokeKey: readonly string[];
  readonly trustRole?: string;
}

export function addReleaseOptions(command: Command): Command {
  const rules = command
    .addOption(
      new Option(
        '--version-scheme <scheme>',
        'how versions of the stream are ordered; default: as its first release that tells',
      )
        .choices([...VERSION_SCHEMES])
        .helpGroup('The release:'),
    )
    .option(
      '--expires <time>',
      'nodes that do not know the bundle refuse it after this time (RFC 3339), or after this day in UTC (2027-01-31)',
      timeOption('end'),
    )
    .option(
      '--from <range>',
      'releases that may update to this one, as ">=4.12.0 <4.13.7"; from any other one nodes activate it only after a confirmation',
    )
    .option(
      '--barrier <reason>',
      'updates to later releases must pass through this one: nodes activate it and wait until it is proven',
    )
    .option('--deadend <reason>', 'nodes go from this release to no other one by themselves')
    .option(
      '--end-of-life <time>',
      'when the release is no longer maintained (RFC 3339, or a day whose end in UTC counts); from then on nodes hold its activation until a person confirms it',
      timeOption('end'),
    )
    .option(
      '--rollout-start <time>',
      'nodes begin to activate it at this time (RFC 3339, or a day, at 00:00 UTC); needs --rollout-minutes or --rollout-fraction',
      timeOption('begin'),
    )
    .option('--rollout-minutes <number>', 'how long it takes until all nodes may activate it', minutes)
    .option('--rollout-fraction <number>', 'the part of the nodes that may activate it at the start, 0 to 1', fraction)
    .option(
      '--order <file>',
      'in which order the nodes of a cluster activate it: JSON {controlPlane, groups, canary, maxUnavailable, onRollback}',
    )
    .option('--manual', "wait for 'stickpin activate' once it is ready")
    .addOption(
      new Option(
        '--keep <time>',
        'nodes keep the release pinned for good, as with lifecycle.protect: the first one of a product, for example',
      ).choices(['life']),
    )
    .option(
      '--advisory <file>',
      'what is now known about other releases: JSON {version, deadend|barrier: true, reason}, or a list; may be repeated',
      collect,
      [],
    );
  return addKeyOptions(rules.optionsGroup('Keys on nodes:'));
}

function addKeyOptions(command: Command): Command {
  return command
    .option(
      '--trust-key <file>',
      'a public key (.pub) that nodes are to trust from now on, under the name of its file; may be repeated',
      collect,
      [],
    )
    .option('--revoke-key <keyid>', 'a key that nodes revoke for good; may be repeated', collected(keyId), [])
    .option(
      '--trust-role <name>',
      'the role whose keys --trust-key and --revoke-key are about, as in keys.d/NAME.toml of the nodes; without it they are about plain keys (*.pub)',
      roleName,
    );
}

/**
 * An option that can't be read is left out, and its reason added to `faults`: `bundle/option`,
 * `bundle/source`, `bundle/key-file`.
 */
export async function readReleaseOptions(options: ReleaseOptions, faults: FaultList, signal: AbortSignal) {
  for (const [option, reason] of Object.entries({ barrier: options.barrier, deadend: options.deadend })) {
    const why = `--${option} has no reason: people are shown it where an update is held`;
    if (reason?.trim() === '') faults.add(bundleError('bundle/option', why));
  }
  const rollout = await faults.of(() => rolloutOf(options));
  const { readAdvisories, readOrder } = await import('../../../factory/payload/attachments.ts');
  const advisories = (await faults.of(() => readAdvisories(options.advisory, signal))) ?? [];
  const order = await faults.of(() => readOrder(options.order, signal));
  const keys: string[] = [];
  const names: Record<string, string> = {};
  for (const path of options.trustKey) {
    await faults.of(async () => {
      const { pem, keyId } = await readTrustKey(path, options, signal);
      keys.push(pem);
      const name = basename(path).replace(/\.pub$/, '');
      if (isKeyName(name)) names[keyId] ??= name;
    });
  }
  if (options.trustRole !== undefined && options.trustKey.length + options.revokeKey.length === 0) {
    faults.add(
      bundleError(
        'bundle/option',
        '--trust-role needs --trust-key or --revoke-key: which keys of the role are to change?',
      ),
    );
  }
  const { from, barrier, deadend, endOfLife } = options;
  const update = defined({
    from,
    barrier: reasonIn(barrier),
    deadend: reasonIn(deadend),
    rollout,
    order,
    endOfLife,
  });
  const trust = {
    ...(options.trustRole !== undefined && keys.length + options.revokeKey.length > 0 && { role: options.trustRole }),
    ...(keys.length > 0 && { keys: [...new Set(keys)] }),
    ...(Object.keys(names).length > 0 && { names }),
    ...(options.revokeKey.length > 0 && { revoked: [...new Set(options.revokeKey)] }),
  };
  return {
    ...defined({ versionScheme: options.versionScheme, expires: options.expires, keep: options.keep }),
    ...(Object.keys(update).length > 0 && { update }),
    ...(options.manual && { schedule: 'manual' as const }),
    ...(advisories.length > 0 && { advisories }),
    ...(Object.keys(trust).length > 0 && { trust }),
  };
}

async function readTrustKey(path: string, { revokeKey }: ReleaseOptions, signal: AbortSignal) {
  const { key, keyId, otherIds } = parsePublicKey(await readKeyFile(path, signal), path);
  const revoked = [keyId, ...otherIds].find((id) => revokeKey.includes(id));
  if (revoked !== undefined) {
    throw bundleError(
      'bundle/option',
      `--trust-key ${path} is the key that --revoke-key ${revoked} takes out of force: leave one of them out`,
    );
  }
  return { pem: key.export({ type: 'spki', format: 'pem' }).toString(), keyId };
}

function reasonIn(reason: string | undefined): { readonly reason: string } | undefined {
  return reason === undefined ? undefined : { reason };
}

function rolloutOf({ rolloutStart, rolloutMinutes, rolloutFraction }: ReleaseOptions): UpdateRules['rollout'] {
  if (rolloutStart === undefined) {
    const needy = rolloutMinutes === undefined ? '--rollout-fraction' : '--rollout-minutes';
    if (rolloutMinutes === undefined && rolloutFraction === undefined) return undefined;
    throw bundleError('bundle/option', `${needy} needs --rollout-start: from when on are nodes to activate?`);
  }
  if (rolloutMinutes === undefined && rolloutFraction === undefined) {
    throw bundleError(
      'bundle/option',
      '--rollout-start alone would hold the release on every node for good: add --rollout-minutes or --rollout-fraction',
    );
  }
  return defined({ start: rolloutStart, durationMinutes: rolloutMinutes, startPercentage: rolloutFraction });
}

const minutes = numberOption(
  /^[0-9]{1,6}$/,
  `It must be a whole number from 1 to ${limits.rolloutMinutes}.`,
  1,
  limits.rolloutMinutes,
);

const fraction = numberOption(
  /^[01](?:\.[0-9]{1,9})?$/,
  'It must be a fraction from 0 to 1, for example 0.1 for 10 % of the nodes.',
  0,
  1,
);

const roleName = textOption(isRoleName, 'It must be 1 to 63 of a-z, 0-9 and -.');

const keyId = textOption(
  (text) => /^[0-9a-f]{64}$/.test(text),
  'It must be a key id, 64 lower-case hex digits, as stickpin keygen and bundle inspect print it.',
);

import { realpath, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { keyProblemLine } from '../bundle/keys/keys-folder.ts';
import { newKeyRemedy, revokedClause } from '../bundle/keys/revocation-record.ts';
import { shortRole } from '../bundle/keys/roles.ts';
import { loadTrustedKeys, type TrustedKeys } from '../bundle/keys/trust.ts';
import { type Finding, findingsOn } from '../domain/model/reason.ts';
import type { TrustReport } from '../domain/report/status-schema.ts';
import { revokerText } from '../domain/report/texts/short-texts.ts';
import {
  EMPTY_RECORD,
  type RevocationRecord,
  revocationsInForce,
  revokerOf,
} from '../domain/trust/revocation-record.ts';
import { reasonOf } from '../platform/app-error.ts';
import type { Check, ExaminedNode, Found } from './check.ts';

const { ok, warning, fault } = findingsOn('keys');

interface NamedKey {
  readonly keyId: string;
  readonly title: string;
}

/** The trusted and revoked keys. Only the daemon knows keys that a bundle added. */
export function checkKeys(node: ExaminedNode): readonly Check[] {
  const { settings, ownUid, trust: inForce } = node;
  const { keys_dir: folder, threshold, require } = settings.trust;
  const run = async (signal: AbortSignal): Promise<Found> => {
    const { record, findings } = await recordOf(node, signal);
    const folderKeys = await loadTrustedKeys(folder, signal, { wasSeen: record.folders.includes(folder), ownUid });
    const { trusted, withoutTrust, revoked } = keysOf(folderKeys, inForce, record);
    const troubles = folderKeys.problems.map(({ message, remedy, hidesRevocations }) =>
      hidesRevocations
        ? fault(`${message}; while nobody knows which keys are revoked, no key counts`, remedy)
        : warning(message, remedy),
    );
    const gone = revoked.map(({ title }) => title).join(', ');
    const needs = { folder, threshold, require, roles: folderKeys.roles.length, withoutTrust };
    return [
      findings,
      troubles,
      !folderKeys.revocationsUnreadable && [enough(trusted, needs), rolesFound(folderKeys, inForce)],
      gone !== '' && ok(`revoked: ${gone}`),
      await openParents(folder),
    ];
  };
  const remedy =
    "run 'sudo stickpin doctor'; if root can't read the keys either, look at the file that the message names";
  return [{ subject: 'keys', remedy, run }];
}

async function recordOf(
  { revocations }: ExaminedNode,
  signal: AbortSignal,
): Promise<{ record: RevocationRecord; findings: readonly Finding[] }> {
  try {
    return { record: await revocations(signal), findings: [] };
  } catch (error) {
    const remedy = 'see that a *.revoked file names each key that was ever revoked, and restart stickpin';
    return { record: EMPTY_RECORD, findings: [fault(reasonOf(error), remedy)] };
  }
}

/**
 * Parent folders in which other users could replace this folder. The daemon would notice only if
 * its owner changes.
 */
async function openParents(folder: string): Promise<Found> {
  const findings: Finding[] = [];
  let path = await realpath(folder).catch(() => folder);
  while (path !== dirname(path)) {
    path = dirname(path);
    const mode = await stat(path).then(
      (found) => found.mode,
      () => 0,
    );
    if ((mode & 0o022) === 0 || (mode & 0o1000) !== 0) continue;
    findings.push(
      warning(`${path} can be written by others than its owner, who could take ${folder} away`, `chmod go-w ${path}`),
    );
  }
  return findings;
}

interface KeyNeeds {
  readonly folder: string;
  readonly threshold: number;
  readonly require: ExaminedNode['settings']['trust']['require'];
  readonly roles: number;
  /** Plain keys that are revoked, with their names. */
  readonly withoutTrust: readonly { readonly name: string; readonly keyId: string }[];
}

/** Whether enough keys are trusted. If roles have keys, no plain key is needed. */
function enough(trusted: readonly NamedKey[], { folder, threshold, require, roles, withoutTrust }: KeyNeeds): Finding {
  const names = trusted.map(({ title }) => title).join(', ');
  if (require === 'approval')
    return ok(`bundles are approved, and no signature is asked for; trusted: ${names || 'no key'}`);
  if (trusted.length === 0 && roles > 0) return ok('no plain key (*.pub) is trusted, only keys of roles');
  if (trusted.length === 0 && withoutTrust.length > 0) {
    const message = `no key is trusted, since ${revokedClause(withoutTrust)}, so that no signature counts`;
    return fault(message, newKeyRemedy(withoutTrust, folder));
  }
  if (trusted.length === 0) {
    return fault('no key is trusted, so that no signature counts', `copy the factory's .pub file to ${folder}`);
  }
  if (trusted.length >= threshold) return ok(`trusted: ${names}`);
  const message = `only ${names} is trusted, but trust.threshold wants ${threshold} distinct keys`;
  return fault(message, `copy more .pub files to ${folder}, or lower the threshold`);
}

/**
 * The roles, and those whose keys can't be enough. Keys that bundles added to a role are known
 * to the daemon alone, and so is whether they count.
 */
function rolesFound(folderKeys: TrustedKeys, inForce: TrustReport | undefined): Found {
  const roles = folderKeys.roles.map((role) => {
    const keys = inForce?.roles?.find(({ name }) => name === role.name)?.keys ?? role.keys;
    return { role, keys, lacking: shortRole(role, keys) };
  });
  const known = new Set([...folderKeys.problems, ...roles.flatMap(({ lacking }) => lacking ?? [])].map(keyProblemLine));
  const unused = (inForce?.problems ?? []).filter((line) => !known.has(line));
  return [
    roles.map(({ role, keys, lacking }) =>
      lacking === undefined
        ? ok(`role ${role.name}: ${keys.map(({ name }) => name).join(', ')}`)
        : fault(lacking.message, lacking.remedy),
    ),
    unused.map((line) => warning(line, "see 'stickpin trust list'")),
  ];
}

/**
 * The keys of the folder, keys that bundles added or revoked, and keys with a stored revocation.
 */
function keysOf(
  fileKeys: TrustedKeys,
  inForce: TrustReport | undefined,
  record: RevocationRecord,
): { trusted: readonly NamedKey[]; withoutTrust: KeyNeeds['withoutTrust']; revoked: readonly NamedKey[] } {
  const byFile = fileKeys.revoked.map((keyId) => ({ keyId, title: short(keyId) }));
  const others = inForce?.revoked ?? rememberedIn(record);
  const remembered = others
    .filter(({ keyId }) => !fileKeys.revokedIds.has(keyId))
    .map((one) => ({ keyId: one.keyId, title: `${short(one.keyId)} (by ${revokerText(one)})` }));
  const revoked = [...byFile, ...remembered];
  const brought = (inForce?.keys ?? []).flatMap(({ name, keyId, broughtBy }) =>
    broughtBy === undefined ? [] : [{ keyId, title: `${name} (added by bundle ${broughtBy})` }],
  );
  const published = [...fileKeys.keys.map(({ keyId, name }) => ({ keyId, title: name })), ...brought];
  const isRevoked = ({ keyId }: { readonly keyId: string }) => revoked.some((gone) => gone.keyId === keyId);
  return {
    trusted: published.filter((key) => !isRevoked(key)),
    withoutTrust: [
      ...fileKeys.revokedKeys.filter(({ role }) => role === undefined),
      ...fileKeys.keys.filter(isRevoked),
    ],
    revoked,
  };
}

/** The known revocations while no daemon answers. */
function rememberedIn(record: RevocationRecord): TrustReport['revoked'] {
  const stored = revocationsInForce(record);
  const ids = [...new Set(stored.map(({ keyId }) => keyId))];
  return ids.map((keyId) => ({ keyId, ...revokerOf(stored.filter((one) => one.keyId === keyId)) }));
}

function short(keyId: string): string {
  return `${keyId.slice(0, 12)}…`;
}

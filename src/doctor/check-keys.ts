import { realpath, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { keyProblemLine } from '../bundle/keys/keys-folder.ts';
import { readRevocationRecord, revocationRecordPath } from '../bundle/keys/revocation-record.ts';
import { loadTrustedKeys, type TrustedKeys } from '../bundle/keys/trust.ts';
import { type Finding, findingsOn } from '../domain/model/finding.ts';
import { EMPTY_RECORD, type RevocationRecord, revocationsInForce } from '../domain/trust/revocation-record.ts';
import type { TrustReport } from '../domain/trust/trust-in-force.ts';
import { reasonOf } from '../platform/app-error.ts';
import type { Check, ExaminedNode } from './check.ts';

const { ok, warning, fault } = findingsOn('keys');

/** A trusted or revoked key, with its name for display. */
interface NamedKey {
  readonly keyId: string;
  readonly title: string;
}

/** The part of the node that {@link checkKeys} uses. */
type NodeWithKeys = Pick<ExaminedNode, 'ownUid' | 'trust'> & {
  readonly settings: {
    readonly trust: Pick<ExaminedNode['settings']['trust'], 'keys_dir' | 'threshold'>;
    readonly paths: Pick<ExaminedNode['settings']['paths'], 'state_dir'>;
  };
};

/** The trusted and revoked keys. Only the daemon knows keys that a bundle added. */
export function checkKeys({ settings, ownUid, trust: inForce }: NodeWithKeys): readonly Check[] {
  const { keys_dir: folder, threshold } = settings.trust;
  const look = async (signal: AbortSignal): Promise<readonly Finding[]> => {
    const { record, findings } = await recordOf(settings.paths.state_dir);
    const own = await loadTrustedKeys(folder, signal, { wasSeen: record.folders.includes(folder), ownUid });
    const { trusted, revoked } = keysOf(own, inForce, record);
    const troubles = own.problems.map(({ message, remedy, hidesRevocations }) =>
      hidesRevocations
        ? fault(`${message}; while nobody knows which keys are revoked, no key counts`, remedy)
        : warning(message, remedy),
    );
    const gone = revoked.map(({ title }) => title).join(', ');
    return [
      ...findings,
      ...troubles,
      ...(own.revocationsUnreadable ? [] : [enough(trusted, { folder, threshold, roles: own.roles.length })]),
      ...(own.revocationsUnreadable ? [] : rolesFound(own, inForce)),
      ...(gone === '' ? [] : [ok(`revoked: ${gone}`)]),
      ...(await openParents(folder)),
    ];
  };
  const remedy =
    "run 'sudo stickpin doctor'; if root can't read the keys either, look at the file that the message names";
  return [{ subject: 'keys', remedy, look }];
}

async function recordOf(stateDirectory: string): Promise<{ record: RevocationRecord; findings: readonly Finding[] }> {
  const path = revocationRecordPath(stateDirectory);
  try {
    return { record: (await readRevocationRecord(path)) ?? EMPTY_RECORD, findings: [] };
  } catch (error) {
    const remedy = `see that a *.revoked file names each key that was ever revoked, then remove ${path} and restart stickpin`;
    return { record: EMPTY_RECORD, findings: [fault(reasonOf(error), remedy)] };
  }
}

/**
 * Parent folders in which other users could replace this folder. The daemon would notice only if
 * its owner changes.
 */
async function openParents(folder: string): Promise<readonly Finding[]> {
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

/** Plain keys may be none where roles have all that is to be trusted. */
function enough(
  trusted: readonly NamedKey[],
  { folder, threshold, roles }: { readonly folder: string; readonly threshold: number; readonly roles: number },
): Finding {
  const names = trusted.map(({ title }) => title).join(', ');
  if (trusted.length === 0 && roles > 0) return ok('no plain key (*.pub) is trusted, only keys of roles');
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
function rolesFound(own: TrustedKeys, inForce: TrustReport | undefined): readonly Finding[] {
  const told = new Set(own.problems.map(keyProblemLine));
  const unused = (inForce?.problems ?? []).filter((line) => !told.has(line));
  return [
    ...own.roles.map(({ name, threshold, keys }) => {
      const counting = inForce?.roles?.find((role) => role.name === name)?.keys ?? keys;
      const names = counting.map((key) => key.name).join(', ') || 'no key';
      if (counting.length >= threshold) return ok(`role ${name}: ${names}`);
      return fault(
        `role ${name} asks for ${threshold} distinct keys, and has ${names}: nothing can be trusted by it`,
        `add keys to ${name}.toml, or lower its threshold`,
      );
    }),
    ...unused.map((line) => warning(line, "see 'stickpin trust list'")),
  ];
}

/**
 * The keys of the folder, keys that bundles added or revoked, and keys with a stored revocation.
 */
function keysOf(
  own: TrustedKeys,
  inForce: TrustReport | undefined,
  record: RevocationRecord,
): { trusted: readonly NamedKey[]; revoked: readonly NamedKey[] } {
  const byFile = own.revoked.map((keyId) => ({ keyId, title: short(keyId) }));
  const others =
    inForce?.revoked ?? revocationsInForce(record).map(({ keyId, bundleId }) => ({ keyId, revokedBy: bundleId }));
  const remembered = new Map(
    others
      .filter(({ keyId }) => !own.revokedIds.has(keyId))
      .map(({ keyId, revokedBy }) => [
        keyId,
        { keyId, title: `${short(keyId)} (by ${revokedBy ?? 'a file that is gone'})` },
      ]),
  );
  const revoked = [...byFile, ...remembered.values()];
  const brought = (inForce?.keys ?? []).flatMap(({ name, keyId, broughtBy }) =>
    broughtBy === undefined ? [] : [{ keyId, title: `${name} (added by bundle ${broughtBy})` }],
  );
  const published = [...own.keys.map(({ keyId, name }) => ({ keyId, title: name })), ...brought];
  return { trusted: published.filter(({ keyId }) => revoked.every((gone) => gone.keyId !== keyId)), revoked };
}

function short(keyId: string): string {
  return `${keyId.slice(0, 12)}…`;
}

import { loadTrustedKeys, type TrustedKeys } from '../bundle/trust.ts';
import { type Finding, findingsOn } from '../domain/finding.ts';
import type { TrustReport } from '../domain/trust-in-force.ts';
import type { Check } from './run-checks.ts';

const { ok, warning, fault } = findingsOn('keys');

/** A key that counts or does not, and what people call it. */
interface NamedKey {
  readonly keyId: string;
  readonly title: string;
}

/**
 * The keys that bundles are judged by. `threshold` distinct ones must have signed. `inForce`: what the daemon says, for keys that came by rotation
 * are in its state alone; undefined when it does not answer.
 */
export function checkKeys(folder: string, threshold: number, inForce: TrustReport | undefined): Check {
  return {
    subject: 'keys',
    look: async (signal) => {
      const own = await loadTrustedKeys(folder, signal);
      const { trusted, revoked } = keysOf(own, inForce);
      const troubles = own.problems.map(({ file, message }) =>
        file.endsWith('.revoked')
          ? fault(`${message}; while nobody knows which key it revokes, no key counts`, 'mend the file or move it away')
          : warning(message, 'mend the file or move it away'),
      );
      const gone = revoked.map(({ title }) => title).join(', ');
      return [
        ...troubles,
        ...(own.isBlind ? [] : [enough(trusted, { folder, threshold })]),
        ...(gone === '' ? [] : [ok(`revoked: ${gone}`)]),
      ];
    },
  };
}

function enough(
  trusted: readonly NamedKey[],
  { folder, threshold }: { readonly folder: string; readonly threshold: number },
): Finding {
  const names = trusted.map(({ title }) => title).join(', ');
  if (trusted.length === 0) {
    return fault('no key is trusted, so that no signature counts', `copy the factory's .pub file to ${folder}`);
  }
  if (trusted.length >= threshold) return ok(`trusted: ${names}`);
  const message = `only ${names} is trusted, but trust.threshold wants ${threshold} distinct keys`;
  return fault(message, `copy more .pub files to ${folder}, or lower the threshold`);
}

/** The keys of the folder, and those that bundles brought and revoked. A revocation of either side is final. */
function keysOf(
  own: TrustedKeys,
  inForce: TrustReport | undefined,
): { trusted: readonly NamedKey[]; revoked: readonly NamedKey[] } {
  const byFile = own.revoked.map((keyId) => ({ keyId, title: short(keyId) }));
  const byBundle = (inForce?.revoked ?? []).flatMap(({ keyId, revokedBy }) =>
    revokedBy === undefined || own.revoked.includes(keyId)
      ? []
      : [{ keyId, title: `${short(keyId)} (by ${revokedBy})` }],
  );
  const revoked = [...byFile, ...byBundle];
  const brought = (inForce?.keys ?? []).flatMap(({ keyId, broughtBy }) =>
    broughtBy === undefined ? [] : [{ keyId, title: `${short(keyId)} (brought by ${broughtBy})` }],
  );
  const published = [...own.keys.map(({ keyId, name }) => ({ keyId, title: name })), ...brought];
  return { trusted: published.filter(({ keyId }) => revoked.every((gone) => gone.keyId !== keyId)), revoked };
}

function short(keyId: string): string {
  return `${keyId.slice(0, 12)}…`;
}

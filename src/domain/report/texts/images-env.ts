import { bundleName, type Image } from '../../model/bundle.ts';
import { variableOf } from '../../release/hooks.ts';
import { keptBundles, lastProven } from '../../release/recorded-phase.ts';
import type { StoredBundle } from '../../state/state.ts';
import { ownerRoles } from '../../trust/role.ts';

/**
 * Returns the text of `images.env`, in the syntax of systemd's `EnvironmentFile=`: a line
 * `STICKPIN_<COMPONENT>=<reference by digest>` for each component of the last known good release of
 * each stream. The component is upper-cased, and every character but letters and digits becomes
 * `_`. Images without a component are left out. If two images of the same keys have the same name,
 * the first one counts, by stream and then in load order.
 *
 * A variable of a release that plain keys signed, also of one that is not proven yet, belongs to no
 * role. One that two roles claim is left out. A comment of one line that begins with the variable
 * says so.
 *
 * @param threshold how many plain keys must have signed (`trust.threshold`)
 */
export function imagesEnv(bundles: readonly StoredBundle[], threshold: number): string {
  const kept = keptBundles(bundles);
  const ownerOf = (bundle: StoredBundle) => ownerRoles(bundle, threshold).join(' and ') || undefined;
  const good = [...new Set(kept.map((bundle) => bundle.payload.name))]
    .sort()
    .flatMap((stream) => lastProven(bundles, stream) ?? []);
  const claims: Claims = {
    ofPlainKeys: new Set(kept.filter((bundle) => ownerOf(bundle) === undefined).flatMap(variablesOf)),
    ofRoles: new Map(),
    taken: new Set(),
  };
  for (const bundle of good) {
    const owner = ownerOf(bundle);
    if (owner === undefined) continue;
    for (const name of variablesOf(bundle)) {
      claims.ofRoles.set(name, (claims.ofRoles.get(name) ?? new Set()).add(owner));
    }
  }
  const lines = good
    .sort((a, b) => Number(ownerOf(a) !== undefined) - Number(ownerOf(b) !== undefined))
    .flatMap((bundle) => [
      `# ${bundleName(bundle.payload)}`,
      ...bundle.contents.images.flatMap((image) => lineOf(image, ownerOf(bundle), claims)),
    ]);
  return ['# Last known good releases, written by stickpin.', ...lines, ''].join('\n');
}

/** Returns the lines of `images.env` that say why a variable differs from a release. */
export function unsetVariables(text: string): readonly string[] {
  return text.split('\n').flatMap((line) => (line.startsWith('# STICKPIN_') ? [line.slice('# '.length)] : []));
}

/**
 * Adds to a new `images.env` those lines of the previous one that name an unclaimed pin and whose
 * variable is not set again: the records of their release are lost, and units that start without
 * the control plane still need them.
 */
export function keepUnclaimedLines(text: string, previous: string, unclaimed: readonly string[]): string {
  const pins = new Set(unclaimed);
  const isSet = (name: string) => text.split('\n').some((line) => line.startsWith(`${name}=`));
  const kept = previous.split('\n').filter((line) => {
    const [, name = '', reference = ''] = /^(STICKPIN_\w+)=(.*)$/.exec(line) ?? [];
    return pins.has(reference) && !isSet(name);
  });
  return kept.length === 0 ? text : [text + KEPT, ...kept, ''].join('\n');
}

interface Claims {
  /** Variables of all kept releases of plain keys. */
  readonly ofPlainKeys: ReadonlySet<string>;
  readonly ofRoles: Map<string, Set<string>>;
  readonly taken: Set<string>;
}

const KEPT = '# Of a release whose records are lost; its pins are unclaimed.';

function variablesOf({ contents }: StoredBundle): string[] {
  return contents.images.flatMap(({ component }) => (component === undefined ? [] : [variableOf(component)]));
}

/** @param owner the names of its roles. Undefined for a release of plain keys */
function lineOf({ component, reference }: Image, owner: string | undefined, claims: Claims): string[] {
  if (component === undefined) return [];
  const name = variableOf(component);
  const what = `${component} is ${reference}`;
  const roles = [...(claims.ofRoles.get(name) ?? [])];
  if (owner !== undefined && claims.ofPlainKeys.has(name)) {
    return [`# ${name} belongs to a release of plain keys, not to role ${owner}; ${what}`];
  }
  if (owner !== undefined && roles.length > 1)
    return [`# ${name} is left out: roles ${roles.join(', ')} claim it; ${what}`];
  if (claims.taken.has(name)) return [`# ${name} is taken; ${what}`];
  claims.taken.add(name);
  return [`${name}=${reference}`];
}

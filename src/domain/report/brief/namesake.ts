import type { BundleAssessment } from '../../assess/assess-bundle.ts';
import { bundleName } from '../../model/bundle.ts';
import { shortDigest } from '../../model/digest.ts';
import type { Reason } from '../../model/reason.ts';
import { commandName } from '../../release/recorded-phase.ts';
import type { StoredBundle } from '../../state/state.ts';
import { briefTitle } from './brief-name.ts';
import { fitted, MAX_LINE_LENGTH } from './fitted.ts';
import { reasonWithin } from './reason-within.ts';

type Entries = readonly Pick<BundleAssessment, 'bundle'>[];

/** Whether its name and version mean another bundle too. */
function hasNamesake(bundle: StoredBundle, bundles: Entries): boolean {
  return commandNameAmong(bundle, bundles) === bundle.bundleId;
}

/** As {@link commandName}. */
export function commandNameAmong(bundle: StoredBundle, bundles: Entries): string {
  return commandName(
    bundle,
    bundles.map((entry) => entry.bundle),
  );
}

/**
 * A text, or a record with texts, about a bundle: commands in it name the bundle by its digest
 * where its name is not enough.
 */
export function withCommands<T>(about: T, bundle: StoredBundle, bundles: readonly StoredBundle[]): T {
  const command = commandName(bundle, bundles);
  const name = bundleName(bundle.payload);
  if (command === name) return about;
  const named = (value: unknown): unknown => {
    if (typeof value === 'string') return value.replaceAll(` ${name}'`, ` ${command}'`);
    if (Array.isArray(value)) return value.map(named);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, named(one)]));
  };
  return named(about) as T;
}

/**
 * As {@link briefTitle}, with the digest in short where the title alone could mean another bundle
 * that is kept.
 */
export function titleAmong(bundle: StoredBundle, bundles: Entries): string {
  const title = briefTitle(bundle.payload);
  return hasNamesake(bundle, bundles) ? `${title} (${shortDigest(bundle.bundleId)})` : title;
}

/**
 * A reason that speaks of the bundle by its title, with the digest in short added where that is not
 * enough.
 */
export function reasonAmong(reason: Reason, bundle: StoredBundle, bundles: Entries): string {
  if (!hasNamesake(bundle, bundles)) return reasonWithin(reason);
  const which = `This is bundle ${shortDigest(bundle.bundleId)}.`;
  return fitted([reasonWithin(reason, MAX_LINE_LENGTH - which.length - 2), which]);
}

import { bundleName } from '../../domain/model/bundle.ts';
import { isRetired } from '../../domain/release/recorded-phase.ts';
import type { StoredBundle } from '../../domain/state/state.ts';
import { AppError } from '../../platform/app-error.ts';

/** The refusal of a command, with disposition `reject`. */
export function refuse(code: string, message: string): AppError {
  return new AppError({ code, message, disposition: 'reject' });
}

/**
 * Finds a bundle by its `name@version` or digest. @throws AppError `engine/no-bundle`,
 * `engine/ambiguous` (`reject`)
 */
export function findBundle(bundles: readonly StoredBundle[], name: string): StoredBundle {
  const named = bundles.filter((bundle) => bundleName(bundle.payload) === name);
  const live = named.filter((bundle) => !isRetired(bundle));
  if (live.length > 1) throw ambiguous(live, name);
  const found = bundles.find((bundle) => bundle.bundleId === name) ?? live[0] ?? named.at(-1);
  if (found !== undefined) return found;
  const known = bundles.map((bundle) => bundleName(bundle.payload)).join(', ');
  throw refuse(
    'engine/no-bundle',
    `no bundle ${name} is known here; ${known === '' ? 'none is, plug in a stick' : `known are ${known}`}`,
  );
}

function ambiguous(bundles: readonly StoredBundle[], name: string): AppError {
  const ids = bundles.map(({ bundleId, payload }) => `${bundleId} (sequence ${payload.sequence})`).join(' or ');
  return refuse(
    'engine/ambiguous',
    `${bundles.length} bundles here are called ${name}: name the one you mean by its digest, ${ids}`,
  );
}

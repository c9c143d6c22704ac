import { assertNever } from '../../../platform/app-error.ts';
import { bundleName, bundleTitle } from '../../model/bundle.ts';
import type { KeptWhy } from '../../release/kept-why.ts';
import type { StoredBundle } from '../../state/state.ts';

/** Why a release that is not the current one is kept, and what releases it. A clause. */
export function keptText(bundle: StoredBundle, why: KeptWhy): string {
  switch (why.kind) {
    case 'protected':
      return 'kept for good by lifecycle.protect';
    case 'wanted':
      return 'kept since its activation was asked for';
    case 'base':
      return 'kept until the delta that builds on it is complete';
    case 'last-good':
      return `kept as the last known good release, until ${unproven(why.current)}`;
    case 'fallback':
      return `kept as a fallback (lifecycle.keep = ${why.keep}), until newer releases are proven`;
    case 'unproven': {
      const what = why.isRolledBack ? 'it was rolled back' : 'it was never proven';
      const name = bundleName(bundle.payload);
      const then = `${unproven(why.current)} and has a higher sequence`;
      return `kept, since ${what}, until ${then}; 'stickpin unpin ${name}' gives it up`;
    }
    case 'surplus':
      return 'kept only while containers run from it';
    default:
      return assertNever(why);
  }
}

function unproven({ payload }: StoredBundle): string {
  return `${bundleTitle(payload)} is proven`;
}

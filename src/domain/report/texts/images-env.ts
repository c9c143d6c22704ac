import { bundleName, type Image } from '../../model/bundle.ts';
import { keptBundles, lastProven } from '../../release/recorded-phase.ts';
import type { StoredBundle } from '../../state/state.ts';

/**
 * The text of `images.env`, in the syntax of systemd's `EnvironmentFile=`: a line
 * `STICKPIN_<COMPONENT>=<reference by digest>` for each component of the last known good release of
 * each stream. The component is upper-cased, and every character but letters and digits becomes
 * `_`. Images without a component are left out. Where two images come to the same name, the first
 * one counts, and a comment names the other. Streams of plain keys come before those of roles, so
 * that a role takes no variable of theirs; then in alphabetical order. Images are in load order.
 */
export function imagesEnv(bundles: readonly StoredBundle[]): string {
  const streams = [...new Set(keptBundles(bundles).map((bundle) => bundle.payload.name))].sort();
  const taken = new Set<string>();
  const lines = streams
    .flatMap((stream) => lastProven(bundles, stream) ?? [])
    .sort((a, b) => Number(isOfRole(a)) - Number(isOfRole(b)))
    .flatMap(({ payload, contents }) => [
      `# ${bundleName(payload)}`,
      ...contents.images.flatMap((image) => lineOf(image, taken)),
    ]);
  return ['# Last known good releases, written by stickpin.', ...lines, ''].join('\n');
}

/**
 * Adds to a new `images.env` those lines of the previous one that name an unclaimed pin and whose
 * variable is not set again: what was recorded of their release is lost, and units that start
 * without the control plane still need them.
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

/** Whether keys of roles alone signed a release. */
function isOfRole({ signerKeyIds = [], signerRoles = [] }: StoredBundle): boolean {
  const inRoles = new Set(signerRoles.map(({ keyId }) => keyId));
  return inRoles.size > 0 && signerKeyIds.every((keyId) => inRoles.has(keyId));
}

const KEPT = '# Of a release whose records are lost; its pins are unclaimed.';

function lineOf({ component, reference }: Image, taken: Set<string>): string[] {
  if (component === undefined) return [];
  const name = `STICKPIN_${component.toUpperCase().replace(/[^A-Z0-9]/g, '_')}`;
  if (taken.has(name)) return [`# ${name} is taken; ${component} is ${reference}`];
  taken.add(name);
  return [`${name}=${reference}`];
}

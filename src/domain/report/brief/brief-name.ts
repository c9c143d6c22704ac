import { clip } from '../../../platform/plain-text.ts';
import { bundleName, bundleTitle } from '../../model/bundle.ts';
import type { BundleLabel } from '../../model/reason.ts';
import { MAX_NAME_LENGTH } from './fitted.ts';

/** The title of a bundle in a short line: `ocp 4.13.7`. */
export function briefTitle(bundle: BundleLabel): string {
  return clip(bundleTitle(bundle), MAX_NAME_LENGTH);
}

/** A name of something else in a short line: a medium, a node, an image. */
export function briefName(name: string): string {
  return clip(name, MAX_NAME_LENGTH);
}

/** Longest list of names in a short line. */
const MAX_NAMES_LENGTH = 64;

/** Several names in a short line: all of them, or the first one and how many more. */
export function briefNames(names: readonly string[], none: string, joint = ', '): string {
  const all = names.join(joint) || none;
  if (all.length <= (names.length > 1 ? MAX_NAMES_LENGTH : MAX_NAME_LENGTH)) return all;
  const [first = none, ...more] = names;
  return `${briefName(first)}${more.length === 0 ? '' : ` and ${more.length} more`}`;
}

/** What a command takes for a bundle; undefined where its name is too long for a short line. */
export function briefCommand(command: string, bundle: BundleLabel): string {
  const name = bundleName(bundle);
  return name.length <= MAX_NAME_LENGTH ? `'stickpin ${command} ${name}'` : "'stickpin list'";
}

import { clip } from '../../platform/plain-text.ts';
import type { BundleAssessment } from '../assess/assess-bundle.ts';
import { bundleName, bundleTitle } from '../model/bundle.ts';
import { shortDigest } from '../model/digest.ts';
import type { Medium } from '../model/medium.ts';
import type { BundleLabel } from '../model/reason.ts';
import { commandName } from '../release/recorded-phase.ts';
import { isFolder } from '../state/memory.ts';
import { bundlesIn, type StoredBundle } from '../state/state.ts';

/** Writes the names in a text: whole in a message, short in a STATUS line. */
export interface Names {
  /** Returns `ocp 4.13.7`. */
  readonly title: (bundle: BundleLabel) => string;
  readonly name: (name: string) => string;
  /** Names a medium by its label. */
  readonly medium: (label: string) => string;
  /** @param none the text for an empty list */
  readonly list: (names: readonly string[], none: string, joint?: string) => string;
  readonly media: (labels: readonly string[], none: string, joint?: string) => string;
}

const allNames: Names['list'] = (names, none, joint = ', ') => names.join(joint) || none;

export const WHOLE: Names = {
  title: bundleTitle,
  name: (name) => name,
  medium: (label) => label,
  list: allNames,
  media: allNames,
};

/** Longest name in a STATUS line: the fault must be in the first 80 characters. */
const MAX_NAME_LENGTH = 48;

/** Longest list of names in a STATUS line. */
const MAX_NAMES_LENGTH = 64;

/** Returns `ocp 4.13.7`, clipped. */
function briefTitle(bundle: BundleLabel): string {
  return clip(bundleTitle(bundle), MAX_NAME_LENGTH);
}

/** Keeps the last folders of a path that fit, else the first ones. No folder is cut. */
function briefName(name: string): string {
  const short = withShortDigests(name);
  if (short.length <= MAX_NAME_LENGTH) return short;
  const end = short.indexOf('/', short.length - MAX_NAME_LENGTH + 1);
  if (end >= 0 && end < short.length - 1) return `…${short.slice(end)}`;
  const begin = short.lastIndexOf('/', MAX_NAME_LENGTH - 2);
  return begin > 0 ? `${short.slice(0, begin + 1)}…` : clip(short, MAX_NAME_LENGTH);
}

/** Returns all names, or the first one and how many more. */
function briefNames(names: readonly string[], none: string, joint = ', '): string {
  const all = names.join(joint) || none;
  if (all.length <= (names.length > 1 ? MAX_NAMES_LENGTH : MAX_NAME_LENGTH)) return all;
  const [first = none, ...more] = names;
  return `${briefName(first)}${more.length === 0 ? '' : ` and ${more.length} more`}`;
}

export const BRIEF: Names = {
  title: briefTitle,
  name: briefName,
  medium: briefName,
  list: briefNames,
  media: briefNames,
};

/** A person plugs in a stick. The drop folder always exists. */
export function isStick({ isDropFolder, peer }: Pick<Medium, 'isDropFolder' | 'peer'>): boolean {
  return !isDropFolder && peer === undefined;
}

/** Names of registries have a slash, names of other nodes don't. */
export function isOtherNode({ label, peer }: { readonly label: string; readonly peer?: object | undefined }): boolean {
  return peer !== undefined && !label.includes('/');
}

/**
 * Names the only plugged stick "the stick": nobody who holds it knows the name of its device, which
 * `stickpin list` and the journal have.
 */
export function namesAt(names: Names, media: readonly Medium[]): Names {
  const [stick, another] = media.filter((medium) => isStick(medium) && !isFolder(medium));
  if (stick === undefined || another !== undefined) return names;
  const nameOf = (label: string) => (label === stick.label ? 'the stick' : label);
  return {
    ...names,
    medium: (label) => names.medium(nameOf(label)),
    media: (labels, none, joint) => names.media(labels.map(nameOf), none, joint),
  };
}

export type KeptBundles = readonly Pick<BundleAssessment, 'bundle'>[];

/** Whether another bundle has the same name and version. */
export function hasNamesake(bundle: StoredBundle, bundles: KeptBundles): boolean {
  return commandNameAmong(bundle, bundles) === bundle.bundleId;
}

export function commandNameAmong(bundle: StoredBundle, bundles: KeptBundles): string {
  return commandName(bundle, bundlesIn(bundles));
}

/**
 * Changes a text, or a record with texts, about a bundle: its commands name the bundle by its
 * digest if its name is ambiguous.
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
 * Returns the title of a bundle, with a short digest if the title could also mean another kept
 * bundle.
 */
export function titleAmong(bundle: StoredBundle, bundles: KeptBundles, names: Names = BRIEF): string {
  const title = names.title(bundle.payload);
  return hasNamesake(bundle, bundles) ? `${title} (${shortDigest(bundle.bundleId)})` : title;
}

/** Returns `'stickpin activate ocp@4.13.7'`. */
export function activateCommand(bundle: BundleLabel): string {
  return `'stickpin activate ${bundleName(bundle)}'`;
}

const LONG_DIGEST = /(?<![0-9a-f])([0-9a-f]{12})(?:[0-9a-f]{52}|[0-9a-f]{116})(?![0-9a-f])/g;

/** Nobody reads 64 hex digits from a screen: `list` has them. Commands accept the first ones. */
export function withShortDigests(text: string): string {
  const commands = text.replace(/'stickpin [^']*'/g, (command) => command.replace(LONG_DIGEST, '$1'));
  return commands.replace(LONG_DIGEST, '$1…');
}

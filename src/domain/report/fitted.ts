import { clip, oneLine, sentence } from '../../platform/plain-text.ts';
import type { BundleAssessment } from '../assess/assess-bundle.ts';
import { bundleName, bundleTitle } from '../model/bundle.ts';
import { shortDigest } from '../model/digest.ts';
import type { BundleLabel, Fault, Reason } from '../model/reason.ts';
import { commandName } from '../release/recorded-phase.ts';
import type { StoredBundle } from '../state/state.ts';
import type { Does } from './actions.ts';

/** `ocp 4.13.7`, for a short line. */
export function briefTitle(bundle: BundleLabel): string {
  return clip(bundleTitle(bundle), MAX_NAME_LENGTH);
}

/** Of a path the last folders that fit, else the first ones: none is cut. */
export function briefName(name: string): string {
  const short = withShortDigests(name);
  if (short.length <= MAX_NAME_LENGTH) return short;
  const end = short.indexOf('/', short.length - MAX_NAME_LENGTH + 1);
  if (end >= 0 && end < short.length - 1) return `…${short.slice(end)}`;
  const begin = short.lastIndexOf('/', MAX_NAME_LENGTH - 2);
  return begin > 0 ? `${short.slice(0, begin + 1)}…` : clip(short, MAX_NAME_LENGTH);
}

/** Longest list of names in a short line. */
const MAX_NAMES_LENGTH = 64;

/** All of them, or the first one and how many more. */
function briefNames(names: readonly string[], none: string, joint = ', '): string {
  const all = names.join(joint) || none;
  if (all.length <= (names.length > 1 ? MAX_NAMES_LENGTH : MAX_NAME_LENGTH)) return all;
  const [first = none, ...more] = names;
  return `${briefName(first)}${more.length === 0 ? '' : ` and ${more.length} more`}`;
}

export type KeptBundles = readonly Pick<BundleAssessment, 'bundle'>[];

/** Whether its name and version mean another bundle too. */
export function hasNamesake(bundle: StoredBundle, bundles: KeptBundles): boolean {
  return commandNameAmong(bundle, bundles) === bundle.bundleId;
}

export function commandNameAmong(bundle: StoredBundle, bundles: KeptBundles): string {
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
export function titleAmong(bundle: StoredBundle, bundles: KeptBundles, names: Pick<Names, 'title'> = BRIEF): string {
  const title = names.title(bundle.payload);
  return hasNamesake(bundle, bundles) ? `${title} (${shortDigest(bundle.bundleId)})` : title;
}

/** Longest STATUS line, in characters, with all that is added to it. */
export const MAX_LINE_LENGTH = 200;

/** Longest name in it: what is wrong must stand in the first 80 characters. */
const MAX_NAME_LENGTH = 48;

export const SEE_LIST = "See 'stickpin list'.";

const MORE = "See 'journalctl -u stickpin'.";

/**
 * As many of the sentences as fit, in their order: the first one, which says what is wrong, then
 * the second one, which says what to do, then the others. Only a first sentence that leaves no room
 * for the second one is shortened, at a word and with `…`: another program said what is so long. A
 * whole sentence follows it, `more` where nothing else is short enough.
 */
export function fitted(sentences: readonly string[], maxLength: number = MAX_LINE_LENGTH, more = MORE): string {
  const [first = '', ...rest] = sentences.filter((text) => text !== '');
  const line = rest.reduce(
    (before, next) => {
      const longer = `${sentence(before)} ${next}`;
      return longer.length <= maxLength ? longer : before;
    },
    headWithin(first, { next: rest[0], more }, maxLength),
  );
  return withShortDigests(line);
}

const LONG_DIGEST = /(?<![0-9a-f])([0-9a-f]{12})(?:[0-9a-f]{52}|[0-9a-f]{116})(?![0-9a-f])/g;

/** Nobody reads 64 hex digits from a screen: `list` has them. Commands take the first ones. */
export function withShortDigests(text: string): string {
  const commands = text.replace(/'stickpin [^']*'/g, (command) => command.replace(LONG_DIGEST, '$1'));
  return commands.replace(LONG_DIGEST, '$1…');
}

/**
 * The sentences of a text: each begins with a capital letter after the end of another one. What is
 * in double quotes has none: see `quotedPath()`.
 */
export function sentencesOf(text: string): readonly string[] {
  return text.split(/(?<=[.!?…]'?) (?=\p{Lu})(?<=^(?:[^"]|"[^"]*")*)/u);
}

/** The parts of a sentence that could be sentences. */
export function clausesOf(text: string): readonly string[] {
  return text.split(/; (?=\p{Ll}+[ ,])(?<=^(?:[^"]|"[^"]*")*)/u);
}

/**
 * What an adapter says, as whole sentences: what is wrong, then the last one, which says what to
 * do, then what lies between. Its digests are in short: they would take the room of what matters.
 */
export function foreignSentences(message: string): readonly string[] {
  const text = withShortDigests(oneLine(message));
  const [what = '', ...more] = sentencesOf(text).flatMap(clausesOf).map(sentence);
  const after = more.map((one) => `${one.slice(0, 1).toUpperCase()}${one.slice(1)}`);
  return [what, ...after.slice(-1), ...after.slice(0, -1)];
}

/** The call behind the code of a system error: `(ENOENT, open '/x')`. The journal has it. */
const systemCall = /(?<=\(E[A-Z0-9]+), [^()]+(?=\))/g;

/**
 * A text of at most this length: without the calls of system errors, and if it is still too long,
 * shortened at the end of a clause or word, with `…` at its end.
 */
export function shortened(long: string, maxLength: number): string {
  if (long.length <= maxLength) return long;
  const text = long.replace(systemCall, '');
  if (text.length <= maxLength) return text;
  const all = text.slice(0, Math.max(0, maxLength - 1)).replace(/[\ud800-\udbff]$/, '');
  // The words behind it would seem to be in quotes.
  const begin = all.replace(/^((?:[^"]|"[^"]*")*?)\s*"[^"]*$/, '$1');
  // Half a command can't be run.
  const cut = begin.replace(/[.,;:] [^.,;:']*'(?:stickpin|systemctl|journalctl) [^']*$/, '');
  const words = cut.replace(/\s+\S*$/, '').replace(/[,;:.]+$/, '');
  const clause = cut.replace(/[,;:] [^,;:]*$/, '');
  // Half a folder or digest misleads; another long word is cut.
  if (/\/[^/\s]*$/.test(cut)) return cut.replace(/[^/]*$/, '…');
  if (/:[0-9a-f]+$/.test(cut)) return `${words}…`;
  const ends = [clause, cut.replace(/[\s,;:.]+\S*$/, '')];
  return `${ends.find(({ length }) => length > maxLength * 0.6) ?? cut}…`;
}

function headWithin(
  first: string,
  { next = '', more }: { readonly next: string | undefined; readonly more: string },
  maxLength: number,
): string {
  const isShort = next !== '' && next.length <= maxLength / 2;
  if (first.length + (isShort ? next.length + 2 : 0) <= maxLength) return first;
  if (isShort) return shortened(first, maxLength - next.length - 1);
  if (first.length <= maxLength) return first;
  return more === '' ? shortened(first, maxLength) : `${shortened(first, maxLength - more.length - 1)} ${more}`;
}

/** Sentences, mostly without full stop. A message has them in this order. */
export interface Said {
  /** What is wrong, and why where that is short. */
  readonly what: string;
  readonly details?: readonly string[];
  /** What to do. In a STATUS line it comes before the details. */
  readonly next?: string | undefined;
  /** What else can be done. */
  readonly also?: readonly string[];
  /** What a person does, where the entry does not say it for all of its data. */
  readonly does?: Does;
  /** The words of the action say all that `next` says. */
  readonly isNextSaid?: boolean;
}

/** How the names in a text are written: whole in a message, short in a STATUS line. */
export interface Names {
  /** `ocp 4.13.7` */
  readonly title: (bundle: BundleLabel) => string;
  readonly name: (name: string) => string;
  /** @param none where the list is empty */
  readonly list: (names: readonly string[], none: string, joint?: string) => string;
}

export const WHOLE: Names = {
  title: bundleTitle,
  name: (name) => name,
  list: (names, none, joint = ', ') => names.join(joint) || none,
};

export const BRIEF: Names = { title: briefTitle, name: briefName, list: briefNames };

/** `'stickpin activate ocp@4.13.7'` */
export function activateCommand(bundle: BundleLabel): string {
  return `'stickpin activate ${bundleName(bundle)}'`;
}

/** Everything that is written of one code. `remedy`: see {@link Remedy}. */
interface Entry<Data> {
  readonly says: (data: Data, names: Names) => Said;
  /** Default: calls support where there is a remedy, else waits. */
  readonly does?: Does;
  readonly remedy?: Remedy;
  /** A person or this node ends it; no other node can. */
  readonly isOwn?: true;
  /** An administrator ends it, as planned: nobody else is called. */
  readonly isForAdmin?: true;
  /** Of a refusal: no other copy of the bundle changes it, and no time. */
  readonly isFinal?: true;
}

/**
 * What a person does, as a clause; absent where it ends automatically. `doctor` and the table in
 * docs/operate.md have it. `release`: as `ocp@4.13.7`.
 */
export type Remedy = (release: string) => string;

export type Conclusion = Exclude<Reason, Fault>;

export type Entries<R extends Conclusion> = {
  readonly [Code in R['code']]: Entry<Extract<R, { readonly code: Code }>['data']>;
};

export function codesWhere<E>(
  entries: Readonly<Record<string, E>>,
  holds: (entry: E) => boolean | undefined,
): ReadonlySet<string> {
  return new Set(Object.entries(entries).flatMap(([code, entry]) => (holds(entry) ? [code] : [])));
}

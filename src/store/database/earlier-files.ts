import { lstatSync, statSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import { parseRevocationRecord } from '../../bundle/keys/revocation-record.ts';
import { higherFloors, NO_FLOORS } from '../../domain/adoption/floors.ts';
import type { Contents } from '../../domain/model/bundle.ts';
import { type BundleId, isDigest } from '../../domain/model/digest.ts';
import { EMPTY_RECORD, mergeRecords, type RevocationRecord } from '../../domain/trust/revocation-record.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { digestOf } from '../../platform/digest.ts';
import { isNoFile, readIfPresent } from '../../platform/files/durable-file.ts';
import type { Store } from '../../ports/state.ts';
import { openSeal, unreadable } from '../files/sealed-file.ts';
import { damagedName } from '../files/write-error.ts';
import { floorsDocument, hooksSchema, parseFloors, parsePins, pinsSchema } from './documents.ts';
import type { MirrorContent } from './mirror.ts';

/** In which earlier versions recorded beside the database what the mirror has now. */
export const EARLIER_FILES = ['floors.json', 'pins.json', 'revocations.json', 'hooks.json'] as const;
type EarlierFile = (typeof EARLIER_FILES)[number];

/** Copies of the database by earlier versions, the newer one first. */
const EARLIER_COPIES = ['state.db.copy', 'state.db.copy-before'] as const;

export function earlierCopiesOf(databasePath: string): readonly string[] {
  return EARLIER_COPIES.map((name) => databasePath.replace(/state\.db$/, name)).filter((path) => {
    const found = lstatSync(path, { throwIfNoEntry: false });
    return found?.isFile() === true && statSync(path).size > 0;
  });
}

const imports = v.record(v.string(), v.string());

export interface EarlierFiles {
  /** What could not be used, as sentences. */
  readonly problems: readonly string[];
  /** Whether floors were read, which are no lower bounds. */
  readonly hasFloors: boolean;
  /** Renames the files to `*.migrated`. Call it when a round has run. */
  migrated(): Promise<void>;
}

/**
 * Takes over what an earlier version recorded beside the database. Where both know something, the
 * higher floor and the revocation count. A file is taken once: what a person has taken back since
 * stays so after a kill.
 * @throws AppError `store/read` (`fatal`); `store/…` (`retry`) when it can't be recorded
 */
export async function takeEarlierFiles(
  directory: string,
  store: Store,
  { now, isLost }: { readonly now: number; readonly isLost: boolean },
): Promise<EarlierFiles> {
  await removeMigrated(directory);
  const problems: string[] = [];
  const taken = parsedImports(store.document('imported'));
  let hasFloors = false;
  for (const name of EARLIER_FILES) {
    const path = join(directory, name);
    const text = await readFileText(path);
    if (text === undefined) continue;
    if (taken[name] === digestOf(text)) {
      hasFloors ||= name === 'floors.json';
      continue;
    }
    const reason = take(name, { text, path, store, isLost });
    hasFloors ||= name === 'floors.json' && reason === undefined;
    if (reason === undefined) store.setDocument('imported', JSON.stringify({ ...taken, [name]: digestOf(text) }));
    else problems.push(await asideOf(name, { path, reason, now, store, isLost }));
    if (reason === undefined) taken[name] = digestOf(text);
  }
  return { problems, hasFloors, migrated: () => renameMigrated(directory, store) };
}

function parsedImports(text: string | undefined): Record<string, string> {
  const parsed = v.safeParse(imports, text === undefined ? {} : JSON.parse(text));
  return parsed.success ? parsed.output : {};
}

/** Empty for what is no file. */
async function readFileText(path: string): Promise<string | undefined> {
  try {
    return await readIfPresent(path);
  } catch (error) {
    if (isNoFile(error)) return '';
    throw unreadable(path, error);
  }
}

interface Taking {
  readonly text: string;
  readonly path: string;
  readonly store: Store;
  readonly isLost: boolean;
}

/** Returns why it can't be used. */
function take(name: EarlierFile, { text, path, store, isLost }: Taking): string | undefined {
  if (name === 'revocations.json') return takeRevocations(text, path, store);
  const opened = openSeal(text);
  if (opened.kind === 'damaged') return opened.reason;
  const { value } = opened;
  const wrong = 'its content is not what stickpin writes';
  if (name === 'floors.json') {
    return raiseFloors(value, store) ? undefined : wrong;
  }
  if (name === 'hooks.json') {
    if (!v.safeParse(hooksSchema, value).success) return wrong;
    store.setDocument('hooks', JSON.stringify(value));
    return undefined;
  }
  const pins = v.safeParse(earlierPins, value);
  if (!pins.success) return wrong;
  takePins(pins.output, store, isLost);
  return undefined;
}

function raiseFloors(value: unknown, store: Store): boolean {
  const floors = parseFloors(value);
  if (floors === undefined) return false;
  const known = parseFloors(JSON.parse(store.document('floors') ?? 'null'));
  store.setDocument('floors', JSON.stringify(floorsDocument(higherFloors(known ?? NO_FLOORS, floors))));
  return true;
}

/**
 * Returns why the text can't be used. @throws AppError `store/…`, also when those of the store
 * can't be read
 */
function takeRevocations(text: string, path: string, store: Store): string | undefined {
  let record: RevocationRecord;
  try {
    record = parseRevocationRecord(text, path);
  } catch (error) {
    return reasonOf(error);
  }
  store.setRevocationRecord(mergeRecords(store.revocationRecord() ?? EMPTY_RECORD, record));
  return undefined;
}

const time = v.exactOptional(v.number());
const times = {
  readyAt: time,
  activationRequestedAt: time,
  activatedAt: time,
  activeAt: time,
  provenAt: time,
  rolledBackAt: time,
  resetAt: time,
};
const bundleId = v.custom<BundleId>((value) => typeof value === 'string' && isDigest(value));
const earlierPins = v.object({
  ...pinsSchema.entries,
  known: v.exactOptional(v.array(v.object({ bundleId, ...times })), []),
});

/** Pins of releases that the database does not know become unclaimed. */
function takePins({ known, ...ledger }: v.InferOutput<typeof earlierPins>, store: Store, isLost: boolean): void {
  const { bundles } = store.load();
  const stored = new Map(bundles.map((bundle) => [bundle.bundleId, bundle]));
  const releases = ledger.releases.filter((release) => !stored.has(release.bundleId));
  const unclaimed = [...new Set([...ledger.unclaimed, ...releases.flatMap(({ references }) => references)])].sort();
  store.setDocument('pins', JSON.stringify({ ...ledger, releases, unclaimed, ...(isLost && { isDoubted: true }) }));
  if (!isLost) return;
  // Otherwise tags would go back to the release of an earlier copy.
  for (const { bundleId: id, ...recorded } of known) {
    const bundle = stored.get(id);
    const later = Object.entries(recorded).filter(
      ([name, at]) => bundle !== undefined && at > (bundle[name as keyof typeof recorded] ?? 0),
    );
    if (later.length > 0) store.change(id, { ...Object.fromEntries(later), activationBegunAt: undefined });
  }
}

interface Refused {
  readonly path: string;
  readonly reason: string;
  readonly now: number;
  readonly store: Store;
  readonly isLost: boolean;
}

/** Renames a damaged file. That of revocations stays if nothing else has them. */
async function asideOf(name: EarlierFile, { path, reason, now, store, isLost }: Refused): Promise<string> {
  if (name === 'revocations.json' && (isLost || store.revocationRecord() === undefined)) {
    store.setDocument('hidden-revocations', path);
    return `${reason}. No key is trusted while it is not known which keys are revoked`;
  }
  const aside = damagedName(path, now);
  await rename(path, aside).catch(() => undefined);
  const has: Record<EarlierFile, string> = {
    'floors.json': 'The floors in the database count',
    'pins.json': 'Every pin that the runtime shows stays',
    'revocations.json': 'The state database has them too',
    'hooks.json': 'Hooks run for what happens from now on',
  };
  return `${path} could not be used: ${reason}; it is kept as ${aside}. ${has[name]}`;
}

/** An earlier version would need unclaimed pins, which only that file has. */
async function renameMigrated(directory: string, store: Store): Promise<void> {
  const pins = v.safeParse(pinsSchema, JSON.parse(store.document('pins') ?? 'null'));
  const hasPins = pins.success && pins.output.unclaimed.length + pins.output.givenUp.length > 0;
  const hidden = store.document('hidden-revocations');
  for (const name of [...EARLIER_FILES, ...EARLIER_COPIES]) {
    const path = join(directory, name);
    if ((name === 'pins.json' && hasPins) || path === hidden) continue;
    await rename(path, `${path}.migrated`).catch(() => undefined); // it is absent, or stays
  }
}

async function removeMigrated(directory: string): Promise<void> {
  for (const name of [...EARLIER_FILES, ...EARLIER_COPIES]) {
    await rm(join(directory, `${name}.migrated`), { force: true }).catch(() => undefined);
  }
}

/**
 * Takes from the mirror of another database what is stronger there: floors, revocations, and pins
 * of releases that this database does not know. Returns why its revocations can't be read.
 * @throws AppError `store/…`
 */
export function takeForeignMirror({ tables }: MirrorContent, store: Store): string | undefined {
  const text = (table: string, column: string) => {
    const value = tables[table]?.[0]?.[column];
    return typeof value === 'string' ? value : undefined;
  };
  raiseFloors(JSON.parse(text('floor_record', 'document') ?? 'null'), store);
  const revoked = text('revocation_record', 'document');
  const unread = revoked === undefined ? undefined : takeRevocations(revoked, 'its mirror', store);
  const stored = new Set<unknown>(store.load().bundles.map(({ bundleId: id }) => id));
  const lost = (tables.bundle ?? []).filter((row) => row.retired_at === null && !stored.has(row.bundle_id));
  const releases = lost.map((row) => ({
    bundleId: row.bundle_id as BundleId,
    name: String(row.name),
    version: String(row.version),
    references: pinsOf(String(row.contents)),
  }));
  const own = parsePins(JSON.parse(store.document('pins') ?? 'null'));
  const unclaimed = [...(own?.unclaimed ?? []), ...releases.flatMap(({ references: all }) => all)];
  const ledger = { releases: [...(own?.releases ?? []), ...releases], unclaimed, givenUp: own?.givenUp ?? [] };
  store.setDocument('pins', JSON.stringify({ ...ledger, isDoubted: true }));
  return unread;
}

function pinsOf(contents: string): string[] {
  const { images } = JSON.parse(contents) as Pick<Contents, 'images'>;
  return images.flatMap(({ pin, reference }) => (pin ? [reference] : []));
}

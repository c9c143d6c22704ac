import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runInThisContext } from 'node:vm';
import Database from 'better-sqlite3';
import { expect } from 'vitest';
import { parseStoredContents } from '../../../../src/bundle/format/check-contents.ts';
import type { Image } from '../../../../src/domain/model/bundle.ts';
import { repositoryOf } from '../../../../src/domain/model/reference.ts';
import { connectCri } from '../../crio-double/cri/cri-client.ts';
import type { CrioDouble } from '../../crio-double/start-crio-double.ts';

/**
 * The lines of history of which each recorded time of a bundle has exactly one of the same moment.
 */
const MARKS: Readonly<Record<string, readonly string[]>> = {
  adopted_at: ['bundleVerified'],
  ready_at: ['bundleReady'],
  activation_requested_at: ['activation-requested', 'bundleSeenRunning'],
  activated_at: ['bundleActivated'],
  active_at: ['bundleActive', 'bundleTakesOver'],
  proven_at: ['bundleProven'],
  retired_at: ['bundleRetired', 'roomMade'],
  rolled_back_at: ['bundleRolledBack'],
};

/**
 * Of no line of the bundle's own: that of its adoption, that of its stream, and that an activation
 * has begun.
 */
const OF_OTHERS = ['claimed_at', 'reset_at', 'activation_begun_at'];

/**
 * What happens to a bundle once in its life, whatever interrupts it. It is ready again each time
 * that its images were lost in between, and it proves itself again each time that activation was
 * asked for.
 */
const ONCE = ['bundleTakesOver', 'bundleRetired', 'bundleRolledBack'];

/** What is in a state database, as {@link readStateScript} reads it. */
export interface StateRows {
  readonly integrity: string;
  /** Rows of the table `bundle`. */
  readonly bundles: readonly Readonly<Record<string, string | number | null>>[];
  readonly events: readonly { readonly at: number; readonly kind: string; readonly bundle_id: string | null }[];
}

/**
 * Source of a CommonJS function from an open database to {@link StateRows}: a guest runs it too,
 * which has none of these modules.
 */
export const readStateScript = `(database) => ({
  integrity: database.pragma('integrity_check', { simple: true }),
  bundles: database.prepare('SELECT * FROM bundle JOIN bundle_content USING (bundle_id)').all(),
  events: database.prepare('SELECT at, kind, bundle_id FROM event').all(),
})`;

/**
 * Expects a state database to be whole: `integrity_check`, and each time that is recorded has its
 * line of history and the other way round.
 */
export function expectConsistentState({ integrity, bundles, events }: StateRows): void {
  expect(integrity).toBe('ok');
  for (const bundle of bundles) {
    const marks = Object.keys(bundle).filter((name) => name.endsWith('_at') && !OF_OTHERS.includes(name));
    // A bundle claims pins when it is adopted, or never.
    expect([null, bundle.adopted_at]).toContain(bundle.claimed_at);
    expect(marks.sort()).toEqual(Object.keys(MARKS).sort());
    const own = events.filter((event) => event.bundle_id === bundle.bundle_id);
    for (const mark of marks) {
      const stamps = own.filter(({ kind }) => MARKS[mark]?.includes(kind)).map(({ at }) => at);
      const what = `${bundle.name} ${bundle.version} ${mark}`;
      if (bundle[mark] === null) expect(stamps, `history of ${what}, which is not recorded`).toEqual([]);
      else expect(stamps, `history of ${what}`).toContain(bundle[mark]);
    }
    const timesOf = (kind: string) => own.filter((event) => event.kind === kind).length;
    for (const kind of ONCE) expect(timesOf(kind), `how often ${kind}`).toBeLessThan(2);
    expect(timesOf('bundleProven'), 'how often bundleProven').toBeLessThan(2 + timesOf('activation-requested'));
  }
}

function readState(stateDirectory: string): StateRows {
  const database = new Database(join(stateDirectory, 'state.db'), { readonly: true });
  try {
    const read = runInThisContext(readStateScript) as (open: Database.Database) => StateRows;
    return read(database);
  } finally {
    database.close();
  }
}

/**
 * Expects each image of the bundles that are kept to be there once and pinned.
 *
 * @param options.keepsMirrors whether the daemon left the mirrors of the activated releases at its
 *   end, as it does under systemd; else there must be none.
 * @param options.hasLostImages whether images were lost, so that a bundle was ready more than once;
 *   default false.
 */
export async function expectWholeNode(
  stateDirectory: string,
  double: CrioDouble,
  { keepsMirrors, hasLostImages = false }: { readonly keepsMirrors: boolean; readonly hasLostImages?: boolean },
): Promise<void> {
  const state = readState(stateDirectory);
  const client = connectCri(double.socketPath);
  const listed = await client.listImages().finally(client.close);
  for (const reference of state.bundles.flatMap(keptReferences)) {
    const images = listed.filter((image) => image.repo_digests.includes(reference));
    expect(
      images.map(({ pinned }) => pinned),
      reference,
    ).toEqual([true]);
  }
  const mirrors = readFileSync(join(double.dirs.registriesDropIns, '99-stickpin.conf'), 'utf8');
  const mirrored = [...mirrors.matchAll(/^prefix = "(.+)"$/gm)].map(([, repository]) => repository);
  const served = keepsMirrors ? state.bundles.flatMap(servedRepositories) : [];
  expect(mirrored.toSorted()).toEqual([...new Set(served)].toSorted());
  expectConsistentState(state);
  if (hasLostImages) return;
  const ready = state.events.filter(({ kind }) => kind === 'bundleReady').map(({ bundle_id }) => bundle_id);
  expect(new Set(ready).size).toBe(ready.length);
}

/** Every image of the double by digest, sorted. */
export async function listedReferences(double: CrioDouble): Promise<readonly string[]> {
  const client = connectCri(double.socketPath);
  const listed = await client.listImages().finally(client.close);
  return listed.flatMap((image) => image.repo_digests).sort();
}

/** The repositories of a release that is ready or activated, or was and may be again. */
function servedRepositories(row: StateRows['bundles'][number]): readonly string[] {
  if (row.ready_at === null || row.retired_at !== null) return [];
  return imagesOf(row).flatMap(({ reference, tags }) => [reference, ...tags].map(repositoryOf));
}

function keptReferences(row: StateRows['bundles'][number]): readonly string[] {
  return row.retired_at === null ? imagesOf(row).map(({ reference }) => reference) : [];
}

function imagesOf({ contents }: StateRows['bundles'][number]): readonly Image[] {
  return parseStoredContents(Buffer.from(String(contents))).images;
}

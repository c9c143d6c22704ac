import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect } from 'vitest';
import { parseContents } from '../../src/bundle/schema.ts';
import { connectCri } from './crio-double/cri-client.ts';
import type { CrioDouble } from './crio-double/start-crio-double.ts';

/** The lines of history of which each recorded time of a bundle has exactly one of the same moment. */
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

/** What happens to a bundle once in its life, whatever interrupts it; it proves itself again each time that activation was asked for. */
const ONCE = ['bundleReady', 'bundleTakesOver', 'bundleRetired', 'bundleRolledBack'];

/** Expects the state database to be whole: `integrity_check`, and each time that is recorded has its line of history and the other way round. */
function expectConsistentState(stateDirectory: string): void {
  const database = new Database(join(stateDirectory, 'state.db'), { readonly: true });
  try {
    expect(database.pragma('integrity_check', { simple: true })).toBe('ok');
    const columns = (database.pragma('table_info(bundle)') as { name: string }[]).map(({ name }) => name);
    const marks = columns.filter((name) => name.endsWith('_at'));
    expect(marks.sort()).toEqual(Object.keys(MARKS).sort());
    const bundles = database.prepare<[], Record<string, string | number | null>>('SELECT * FROM bundle').all();
    for (const bundle of bundles) {
      const events = database
        .prepare<[unknown], { at: number; kind: string }>('SELECT at, kind FROM event WHERE bundle_id = ?')
        .all(bundle.bundle_id);
      for (const mark of marks) {
        const kinds = MARKS[mark] ?? [];
        const stamps = events.filter(({ kind }) => kinds.includes(kind)).map(({ at }) => at);
        const what = `${bundle.name} ${bundle.version} ${mark}`;
        if (bundle[mark] === null) expect(stamps, `history of ${what}, which is not recorded`).toEqual([]);
        else expect(stamps, `history of ${what}`).toContain(bundle[mark]);
      }
      const timesOf = (kind: string) => events.filter((event) => event.kind === kind).length;
      for (const kind of ONCE) expect(timesOf(kind), `how often ${kind}`).toBeLessThan(2);
      expect(timesOf('bundleProven'), 'how often bundleProven').toBeLessThan(2 + timesOf('activation-requested'));
    }
  } finally {
    database.close();
  }
}

/** Expects each image of the bundles that are kept to be there once and pinned, and no mirror to be left. */
export async function expectWholeNode(stateDirectory: string, double: CrioDouble): Promise<void> {
  const client = connectCri(double.socketPath);
  const listed = await client.listImages().finally(client.close);
  for (const reference of keptReferences(stateDirectory)) {
    const images = listed.filter((image) => image.repo_digests.includes(reference));
    expect(
      images.map(({ pinned }) => pinned),
      reference,
    ).toEqual([true]);
  }
  const mirrors = readFileSync(join(double.dirs.registriesDropIns, '99-stickpin.conf'), 'utf8');
  expect(mirrors).not.toContain('[[registry]]');
  expectConsistentState(stateDirectory);
}

/** Every image of the double by digest, sorted. */
export async function listedReferences(double: CrioDouble): Promise<readonly string[]> {
  const client = connectCri(double.socketPath);
  const listed = await client.listImages().finally(client.close);
  return listed.flatMap((image) => image.repo_digests).sort();
}

function keptReferences(stateDirectory: string): readonly string[] {
  const database = new Database(join(stateDirectory, 'state.db'), { readonly: true });
  try {
    const rows = database.prepare<[], string>('SELECT contents FROM bundle WHERE retired_at IS NULL').pluck().all();
    return rows.flatMap((contents) => parseContents(Buffer.from(contents)).images.map(({ reference }) => reference));
  } finally {
    database.close();
  }
}

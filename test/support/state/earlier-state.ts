import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { formatRevocationRecord } from '../../../src/bundle/keys/revocation-record.ts';
import { digestOf } from '../../../src/platform/digest.ts';
import { MIGRATIONS } from '../../../src/store/database/migrations.ts';
import { fillRowSums, registerRowSum } from '../../../src/store/database/row-sums.ts';
import { verified } from '../daemon/scenario.ts';

export const EARLIER = {
  bundle: verified(),
  /** The database has a lower one. */
  floor: 9,
  unclaimed: 'quay.example.com/lost/app@sha256:00',
  revoked: 'aa'.repeat(32),
  activatedAt: 5,
} as const;

/** A state directory as the last version before the mirror left it. */
export function writeEarlierState(folder: string): void {
  const { bundle, floor, unclaimed, revoked, activatedAt } = EARLIER;
  const { bundleId, payload, contents, signedBy } = bundle;
  const database = new Database(join(folder, 'state.db'));
  database.pragma('journal_mode = WAL');
  registerRowSum(database);
  for (const step of MIGRATIONS) database.exec(step);
  database.pragma(`user_version = ${MIGRATIONS.length}`);
  const insert = database.prepare(
    'INSERT INTO bundle (bundle_id, name, version, sequence, payload, contents, signed_by, adopted_at, activated_at) VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?)',
  );
  const { name, version, sequence } = payload;
  const documents = [payload, contents, signedBy].map((document) => JSON.stringify(document));
  insert.run(bundleId, name, version, sequence, ...documents, activatedAt);
  const floors = (sequences: number) => ({
    sequences: [[name, sequences]],
    newestCreated: 0,
    created: [],
    areLost: false,
  });
  database.prepare('INSERT INTO floor_record (id, document) VALUES (1, ?)').run(JSON.stringify(floors(7)));
  fillRowSums(database);
  const origin = database.prepare('SELECT id FROM origin').pluck().get();
  database.close();
  const seal = (file: string, content: object) => {
    const body = JSON.stringify(content);
    writeFileSync(join(folder, file), `{"checksum":"${digestOf(body)}","content":${body}}\n`);
  };
  seal('floors.json', floors(floor));
  const references = contents.images.map(({ reference }) => reference).sort();
  const known = [{ bundleId, adoptedAt: 1, activatedAt }];
  const releases = [{ bundleId, name, version, references }];
  const state = { origin, revision: 0 };
  seal('pins.json', {
    releases,
    unclaimed: [unclaimed],
    givenUp: [],
    known,
    verdicts: [],
    rejectedNames: [],
    state,
    stamp: 5,
  });
  seal('hooks.json', [{ hook: 'ready', unit: 'ready.service', done: [[bundleId, 1]] }]);
  const record = { folders: ['/etc/stickpin/keys.d'], revocations: [{ keyId: revoked, otherIds: [], at: 1 }] };
  writeFileSync(join(folder, 'revocations.json'), formatRevocationRecord(record));
  writeFileSync(join(folder, 'state.db.copy'), 'the copies are needed no more');
}

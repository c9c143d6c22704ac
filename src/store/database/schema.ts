import type { Database } from 'better-sqlite3';
import { AppError } from '../../platform/app-error.ts';
import { RECORD_COLUMNS } from './tables/bundle-rows.ts';

/** `user_version` of the database, also in its mirror. */
export const SCHEMA = 1;

/** `stkp`. The header of each database has it (SQLite file format, "Application ID"). */
export const APPLICATION_ID = 0x73746b70;

/**
 * What never changes of a bundle is a row of its own, so that a milestone does not write it again.
 * Its checksum stands first: SQLite reads it without the rest. Times are milliseconds since the
 * epoch; payload, contents and signers are JSON. Rows on which decisions depend have a checksum,
 * see row-sums.ts. `origin` distinguishes this database from another one with the same path, and
 * counts its changes. A role '' means the plain keys.
 */
const TABLES = `
CREATE TABLE bundle_content (
  bundle_id TEXT PRIMARY KEY,
  sum TEXT,
  payload TEXT NOT NULL,
  contents TEXT NOT NULL
) STRICT;
CREATE TABLE bundle (
  bundle_id TEXT PRIMARY KEY REFERENCES bundle_content,
  name TEXT NOT NULL,
  version TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  signed_by TEXT NOT NULL,
  signer_key_ids TEXT NOT NULL,
  signer_roles TEXT,
  ${Object.entries(RECORD_COLUMNS)
    .map(([name, type]) => `${name} ${type},`)
    .join('\n  ')}
  sum TEXT
) STRICT;
CREATE TABLE event (
  event_id INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  kind TEXT NOT NULL,
  bundle_id TEXT,
  medium TEXT,
  message TEXT NOT NULL,
  done_by TEXT NOT NULL
) STRICT;
CREATE INDEX event_by_bundle ON event (bundle_id, event_id);
CREATE TABLE condition (
  bundle_id TEXT NOT NULL,
  type TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('True', 'False', 'Unknown')),
  since INTEGER NOT NULL,
  PRIMARY KEY (bundle_id, type)
) STRICT, WITHOUT ROWID;
CREATE TABLE past (
  bundle_id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  version TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  rolled_back INTEGER NOT NULL,
  record TEXT NOT NULL,
  why TEXT,
  sum TEXT
) STRICT;
CREATE TABLE brought_image (reference TEXT PRIMARY KEY, sum TEXT) STRICT;
CREATE TABLE cancellation (bundle_id TEXT PRIMARY KEY, at INTEGER NOT NULL, media TEXT NOT NULL, sum TEXT) STRICT;
CREATE TABLE verdict (
  bundle_id TEXT PRIMARY KEY,
  verdict TEXT NOT NULL CHECK (verdict IN ('approved', 'rejected')),
  at INTEGER NOT NULL,
  reason TEXT,
  sum TEXT
) STRICT;
CREATE TABLE rejected_name (
  name TEXT NOT NULL,
  version TEXT NOT NULL,
  at INTEGER NOT NULL,
  reason TEXT,
  sum TEXT,
  PRIMARY KEY (name, version)
) STRICT;
CREATE TABLE rotated_key (
  key_id TEXT NOT NULL,
  role TEXT NOT NULL,
  pem TEXT NOT NULL,
  name TEXT,
  stream TEXT NOT NULL,
  bundle_id TEXT NOT NULL,
  at INTEGER NOT NULL,
  sum TEXT,
  PRIMARY KEY (key_id, role, bundle_id)
) STRICT;
CREATE TABLE revoked_key (
  key_id TEXT NOT NULL,
  role TEXT NOT NULL,
  bundle_id TEXT NOT NULL,
  at INTEGER NOT NULL,
  sum TEXT,
  PRIMARY KEY (key_id, role, bundle_id)
) STRICT;
CREATE TABLE tag_given (tag TEXT NOT NULL, at INTEGER NOT NULL) STRICT;
CREATE TABLE document (name TEXT PRIMARY KEY, content TEXT NOT NULL, sum TEXT) STRICT;
CREATE TABLE origin (id TEXT NOT NULL, counter INTEGER NOT NULL DEFAULT 0, sum TEXT) STRICT;
PRAGMA application_id = ${APPLICATION_ID};
PRAGMA user_version = ${SCHEMA};`;

/** Call it within a transaction. `origin` stays empty. */
export function createTables(database: Database): void {
  database.exec(TABLES);
}

/** Whether nothing was written to the database yet. */
export function isEmpty(database: Database): boolean {
  return database.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').get() === undefined;
}

/** Whether stickpin wrote the database, in any version from the first release on. */
export function isOurs(database: Database): boolean {
  return Number(database.pragma('application_id', { simple: true })) === APPLICATION_ID;
}

/** @throws AppError `store/version` (`wait`) */
export function checkVersion(database: Database, path: string): void {
  const version = Number(database.pragma('user_version', { simple: true }));
  if (!isOurs(database) || version !== SCHEMA) throw versionError(path, `its schema is not ${SCHEMA}`);
}

/** `store/version` (`wait`, for a person). Nothing is damaged, so nothing is set aside. */
export function versionError(path: string, why: string, cause?: unknown): AppError {
  const message = `Another version of stickpin wrote ${path} (${why}): nothing is recorded, no key is trusted, all pins stay, nothing is activated, and no pull is answered, so that a pod with imagePullPolicy Always needs its registry. Install that version again, or move state.db and state.json to another folder and run 'systemctl restart stickpin'`;
  return new AppError({ code: 'store/version', message, disposition: 'wait', cause });
}

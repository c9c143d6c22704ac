/**
 * Entry N migrates from `user_version` N to N + 1. Released entries never change. Times are
 * milliseconds since the epoch; payload, contents and signers are JSON.
 */
export const MIGRATIONS: readonly string[] = [
  `CREATE TABLE bundle (
     bundle_id TEXT PRIMARY KEY,
     name TEXT NOT NULL,
     version TEXT NOT NULL,
     sequence INTEGER NOT NULL,
     payload TEXT NOT NULL,
     contents TEXT NOT NULL,
     signed_by TEXT NOT NULL,
     adopted_at INTEGER NOT NULL,
     ready_at INTEGER,
     activation_requested_at INTEGER,
     activated_at INTEGER
   ) STRICT;
   CREATE TABLE event (
     event_id INTEGER PRIMARY KEY AUTOINCREMENT,
     at INTEGER NOT NULL,
     kind TEXT NOT NULL,
     bundle_id TEXT,
     medium TEXT,
     message TEXT NOT NULL
   ) STRICT;
   CREATE INDEX event_by_bundle ON event (bundle_id, event_id);`,
  `ALTER TABLE bundle ADD COLUMN active_at INTEGER;
   ALTER TABLE bundle ADD COLUMN proven_at INTEGER;
   ALTER TABLE bundle ADD COLUMN retired_at INTEGER;
   ALTER TABLE bundle ADD COLUMN remove_images INTEGER;
   ALTER TABLE bundle ADD COLUMN rolled_back_at INTEGER;
   ALTER TABLE bundle ADD COLUMN rolled_back_reason TEXT;
   ALTER TABLE bundle ADD COLUMN soak TEXT;
   CREATE TABLE brought_image (reference TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;`,
  `CREATE TABLE cancellation (
     bundle_id TEXT PRIMARY KEY,
     at INTEGER NOT NULL,
     media TEXT NOT NULL
   ) STRICT;`,
  // NULL signer_key_ids: the bundle was adopted before key ids were recorded.
  `ALTER TABLE bundle ADD COLUMN signer_key_ids TEXT;
   CREATE TABLE verdict (
     bundle_id TEXT PRIMARY KEY,
     verdict TEXT NOT NULL CHECK (verdict IN ('approved', 'rejected')),
     at INTEGER NOT NULL
   ) STRICT;
   CREATE TABLE rotated_key (
     key_id TEXT PRIMARY KEY,
     pem TEXT NOT NULL,
     bundle_id TEXT NOT NULL,
     at INTEGER NOT NULL
   ) STRICT;
   CREATE TABLE revoked_key (
     key_id TEXT PRIMARY KEY,
     bundle_id TEXT NOT NULL,
     at INTEGER NOT NULL
   ) STRICT;`,
  `CREATE TABLE condition (
     bundle_id TEXT NOT NULL,
     type TEXT NOT NULL,
     status TEXT NOT NULL CHECK (status IN ('True', 'False', 'Unknown')),
     since INTEGER NOT NULL,
     PRIMARY KEY (bundle_id, type)
   ) STRICT, WITHOUT ROWID;`,
  `CREATE TABLE tag_given (
     tag TEXT NOT NULL,
     at INTEGER NOT NULL
   ) STRICT;`,
  // JSON: bad blobs of the bundle on media.
  `ALTER TABLE bundle ADD COLUMN bad_blobs TEXT;`,
  `CREATE TABLE revocation_record (
     id INTEGER PRIMARY KEY CHECK (id = 1),
     document TEXT NOT NULL
   ) STRICT;`,
  // JSON: rules that were overridden with the activation request. NULL: the request is older than
  // rules.
  `ALTER TABLE bundle ADD COLUMN activation_overrides TEXT;`,
  // Distinguishes this database from a new one with the same path.
  `CREATE TABLE origin (id TEXT NOT NULL) STRICT;
   INSERT INTO origin (id) VALUES (lower(hex(randomblob(16))));
   ALTER TABLE bundle ADD COLUMN claimed_at INTEGER;
   CREATE TABLE floor_record (
     id INTEGER PRIMARY KEY CHECK (id = 1),
     document TEXT NOT NULL
   ) STRICT;`,
  // Checksums of rows, see row-sums.ts. NULL: the row is older than checksums.
  `ALTER TABLE bundle ADD COLUMN documents_sum TEXT;
   ALTER TABLE bundle ADD COLUMN sum TEXT;
   ALTER TABLE brought_image ADD COLUMN sum TEXT;
   ALTER TABLE cancellation ADD COLUMN sum TEXT;
   ALTER TABLE verdict ADD COLUMN sum TEXT;
   ALTER TABLE rotated_key ADD COLUMN sum TEXT;
   ALTER TABLE revoked_key ADD COLUMN sum TEXT;
   ALTER TABLE revocation_record ADD COLUMN sum TEXT;
   ALTER TABLE floor_record ADD COLUMN sum TEXT;
   ALTER TABLE origin ADD COLUMN sum TEXT;`,
  // JSON: pairs of key id and role, of signers that count in a role only. A key is brought or
  // revoked once in each role; '' is the plain keys. reset_at: the sequence and the time of the
  // bundle count no more.
  `ALTER TABLE bundle ADD COLUMN signer_roles TEXT;
   ALTER TABLE bundle ADD COLUMN reset_at INTEGER;
   CREATE TABLE rotated_key_of_role (
     key_id TEXT NOT NULL,
     role TEXT NOT NULL,
     pem TEXT NOT NULL,
     bundle_id TEXT NOT NULL,
     at INTEGER NOT NULL,
     sum TEXT,
     PRIMARY KEY (key_id, role)
   ) STRICT;
   INSERT INTO rotated_key_of_role (key_id, role, pem, bundle_id, at)
     SELECT key_id, '', pem, bundle_id, at FROM rotated_key ORDER BY rowid;
   DROP TABLE rotated_key;
   ALTER TABLE rotated_key_of_role RENAME TO rotated_key;
   CREATE TABLE revoked_key_of_role (
     key_id TEXT NOT NULL,
     role TEXT NOT NULL,
     bundle_id TEXT NOT NULL,
     at INTEGER NOT NULL,
     sum TEXT,
     PRIMARY KEY (key_id, role)
   ) STRICT;
   INSERT INTO revoked_key_of_role (key_id, role, bundle_id, at)
     SELECT key_id, '', bundle_id, at FROM revoked_key ORDER BY rowid;
   DROP TABLE revoked_key;
   ALTER TABLE revoked_key_of_role RENAME TO revoked_key;`,
  // Why a bundle was rejected. NULL: nobody said.
  'ALTER TABLE verdict ADD COLUMN reason TEXT;',
  // Releases that were rejected by name before their sticks came. NULL reason: nobody said why.
  `CREATE TABLE rejected_name (
     name TEXT NOT NULL,
     version TEXT NOT NULL,
     at INTEGER NOT NULL,
     reason TEXT,
     sum TEXT,
     PRIMARY KEY (name, version)
   ) STRICT;`,
  // When tags began to move. NULL: no activation is half done.
  'ALTER TABLE bundle ADD COLUMN activation_begun_at INTEGER;',
  // What the signer of a rotation calls the key. NULL: nobody said.
  'ALTER TABLE rotated_key ADD COLUMN name TEXT;',
  // Who or what did it. NULL: the event is older than this.
  'ALTER TABLE event ADD COLUMN done_by TEXT;',
  // A key is brought and revoked by any number of bundles. Before, only the first one was recorded,
  // so what later bundles said is taken from their payloads. A bundle counts when its history or
  // another row shows that its keys were taken. Otherwise its revocations count if a trusted key
  // signed it, but not its keys. remade_at: when its bundle was adopted, of a row that was made
  // here. A key that a person restored later stays restored.
  `CREATE TABLE rotated_key_of_bundle (
     key_id TEXT NOT NULL,
     role TEXT NOT NULL,
     pem TEXT NOT NULL,
     bundle_id TEXT NOT NULL,
     at INTEGER NOT NULL,
     sum TEXT,
     name TEXT,
     PRIMARY KEY (key_id, role, bundle_id)
   ) STRICT;
   INSERT INTO rotated_key_of_bundle SELECT key_id, role, pem, bundle_id, at, sum, name FROM rotated_key ORDER BY rowid;
   CREATE TABLE revoked_key_of_bundle (
     key_id TEXT NOT NULL,
     role TEXT NOT NULL,
     bundle_id TEXT NOT NULL,
     at INTEGER NOT NULL,
     sum TEXT,
     remade_at INTEGER,
     PRIMARY KEY (key_id, role, bundle_id)
   ) STRICT;
   INSERT INTO revoked_key_of_bundle SELECT key_id, role, bundle_id, at, sum, NULL FROM revoked_key ORDER BY rowid;
   CREATE TEMP VIEW rotating AS
     SELECT bundle_id, payload, adopted_at, reset_at, ifnull(payload ->> '$.trust.role', '') AS role,
       CASE
         WHEN EXISTS (SELECT 1 FROM event WHERE event.bundle_id = bundle.bundle_id AND kind = 'keysRotated') THEN 'yes'
         WHEN EXISTS (SELECT 1 FROM event WHERE event.bundle_id = bundle.bundle_id AND kind = 'keysNotRotated') THEN 'no'
         WHEN bundle_id IN (SELECT bundle_id FROM rotated_key UNION SELECT bundle_id FROM revoked_key) THEN 'yes'
         WHEN json_valid(signer_key_ids) THEN iif(json_array_length(signer_key_ids) > 0, 'unknown', 'no')
         ELSE 'no'
       END AS taken
     FROM bundle WHERE CASE WHEN json_valid(payload) THEN json_type(payload, '$.trust') END = 'object'
     ORDER BY adopted_at, rowid;
   INSERT OR IGNORE INTO rotated_key_of_bundle (key_id, role, pem, bundle_id, at, name)
     SELECT known.key_id, known.role, known.pem, later.bundle_id, later.adopted_at,
       later.payload ->> ('$.trust.names."' || known.key_id || '"')
     FROM rotating AS later, json_each(later.payload, '$.trust.keys') AS brought
       JOIN rotated_key AS known ON known.pem = brought.value AND known.role = later.role
     WHERE later.taken = 'yes' AND later.reset_at IS NULL;
   INSERT OR IGNORE INTO revoked_key_of_bundle (key_id, role, bundle_id, at, remade_at)
     SELECT known.key_id, known.role, later.bundle_id, later.adopted_at, later.adopted_at
     FROM rotating AS later, json_each(later.payload, '$.trust.revoked') AS named
       JOIN revoked_key AS known ON known.key_id = named.value AND known.role = later.role
     WHERE later.taken <> 'no';
   DROP VIEW rotating;
   DROP TABLE rotated_key;
   ALTER TABLE rotated_key_of_bundle RENAME TO rotated_key;
   DROP TABLE revoked_key;
   ALTER TABLE revoked_key_of_bundle RENAME TO revoked_key;`,
];

import type { Database } from 'better-sqlite3';

/**
 * The identity of a database, and its copy of the floors. Call the writers within a transaction;
 * they don't open one.
 */
export interface IdentityRows {
  /** 32 hexadecimal digits. Empty when there is none. */
  origin(): string;
  /** Replaces the origin with a random one. */
  renewOrigin(): void;
  /** JSON. Undefined when none is stored. */
  floors(): string | undefined;
  setFloors(document: string): void;
}

/** Prepares the statements over the tables `origin` and `floor_record`. */
export function createIdentityRows(database: Database): IdentityRows {
  const origin = database.prepare<[], string>('SELECT id FROM origin').pluck();
  const renew = database.prepare('UPDATE origin SET id = lower(hex(randomblob(16)))');
  const floors = database.prepare<[], string>('SELECT document FROM floor_record').pluck();
  const upsertFloors = database.prepare(
    'INSERT INTO floor_record (id, document) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET document = excluded.document',
  );
  return {
    origin: () => origin.get() ?? '',
    renewOrigin: () => void renew.run(),
    floors: () => floors.get(),
    setFloors: (document) => void upsertFloors.run(document),
  };
}

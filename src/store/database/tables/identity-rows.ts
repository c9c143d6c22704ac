import type { Database } from 'better-sqlite3';

/** Call the writers within a transaction; they don't open one. */
export interface IdentityRows {
  /** 32 hexadecimal digits. Empty when there is none. */
  origin(): string;
  renewOrigin(): void;
  /** JSON. Undefined when none is stored. */
  floors(): string | undefined;
  setFloors(document: string): void;
}

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

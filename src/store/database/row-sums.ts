import type { Database } from 'better-sqlite3';
import { digestOf } from '../../platform/digest.ts';

interface RowSum {
  readonly table: string;
  readonly column: string;
  readonly covers: readonly string[];
}

/** With a checksum of their own, a small change does not read these. */
const DOCUMENTS = { table: 'bundle', column: 'documents_sum', covers: ['payload', 'contents'] } as const;

/** Decisions depend on these. SQLite does not notice a flipped bit within a value. */
export const SUMMED_TABLES = [
  'bundle',
  'past',
  'brought_image',
  'cancellation',
  'verdict',
  'rejected_name',
  'rotated_key',
  'revoked_key',
  'origin',
  'document',
] as const;

/**
 * Call it before the other functions of this file. The SQL function `row_sum(name, value, …)` is
 * SHA-256 over the JSON of all columns that are not NULL.
 */
export function registerRowSum(database: Database): void {
  database.function('row_sum', { varargs: true, deterministic: true }, (...parts: unknown[]) => {
    const pairs: unknown[] = [];
    for (let index = 0; index < parts.length; index += 2) {
      const value = parts[index + 1];
      if (value !== null) pairs.push([parts[index], typeof value === 'bigint' ? `${value}` : value]);
    }
    return digestOf(JSON.stringify(pairs));
  });
}

export function keepRowSums(database: Database): void {
  for (const sum of sumsOf(database)) {
    const { table, column, covers } = sum;
    const refresh = `UPDATE ${table} SET ${column} = ${expression(sum)} WHERE ${keyMatch(database, table)}`;
    const trigger = `CREATE TEMP TRIGGER ${table}_${column}`;
    database.exec(`${trigger}_insert AFTER INSERT ON main.${table} BEGIN ${refresh}; END`);
    database.exec(`${trigger}_update AFTER UPDATE OF ${covers.join(', ')} ON main.${table} BEGIN ${refresh}; END`);
  }
}

/** Undefined when all checksums are right. */
export function tableWithWrongSum(database: Database): string | undefined {
  return sumsOf(database).find((sum) => {
    const isWrong = database.prepare(
      `SELECT 1 FROM ${sum.table} WHERE ${sum.column} IS NOT ${expression(sum)} LIMIT 1`,
    );
    return isWrong.get() !== undefined;
  })?.table;
}

function sumsOf(database: Database): readonly RowSum[] {
  const rows = SUMMED_TABLES.map((table): RowSum => {
    const isOfDocuments = (name: string) => table === DOCUMENTS.table && DOCUMENTS.covers.some((one) => one === name);
    const covers = columnsOf(database, table).filter(({ name }) => name !== 'sum' && !isOfDocuments(name));
    return { table, column: 'sum', covers: covers.map(({ name }) => name) };
  });
  // First: the checksum of the row covers the one of its documents.
  return [DOCUMENTS, ...rows];
}

function expression({ covers }: RowSum): string {
  return `row_sum(${covers.map((name) => `'${name}', ${name}`).join(', ')})`;
}

/** By the primary key, otherwise by the rowid. */
function keyMatch(database: Database, table: string): string {
  const keys = columnsOf(database, table).filter(({ pk }) => pk > 0);
  return keys.length === 0 ? 'rowid = NEW.rowid' : keys.map(({ name }) => `${name} = NEW.${name}`).join(' AND ');
}

export function columnsOf(
  database: Database,
  table: string,
): readonly { readonly name: string; readonly pk: number }[] {
  return database
    .prepare<[string], { name: string; pk: number }>('SELECT name, pk FROM pragma_table_info(?)')
    .all(table);
}

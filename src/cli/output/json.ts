import { JSON_SCHEMA_VERSION } from '../../domain/report/schema-version.ts';

/** What a command prints with `--json`: one document in one line, with its `schemaVersion`. */
export function jsonText(document: object): string {
  return `${JSON.stringify({ schemaVersion: JSON_SCHEMA_VERSION, ...document })}\n`;
}

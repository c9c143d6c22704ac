/**
 * The version of the documents that commands print with `--json`. It grows when a member changes
 * its meaning or goes; new members do not change it.
 */
export const JSON_SCHEMA_VERSION = 1;

/** What a command prints with `--json`: one document in one line, with its `schemaVersion`. */
export function jsonText(document: object): string {
  return `${JSON.stringify({ schemaVersion: JSON_SCHEMA_VERSION, ...document })}\n`;
}

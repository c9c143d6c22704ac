/**
 * The version of the documents for programs: `status.json`, and what commands print with `--json`.
 * It grows when a member changes its meaning or goes; new members do not change it.
 */
export const JSON_SCHEMA_VERSION = 1;

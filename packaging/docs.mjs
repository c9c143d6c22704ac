/**
 * Writes the pages of `docs/` that follow from the program: `npm run docs`. A unit test checks that
 * they are up to date.
 */
import { writeFile } from 'node:fs/promises';
import { apiReference } from '../src/api/api-reference.ts';
import { settingsReference } from '../src/config/settings-reference.ts';

await writeFile(new URL('../docs/settings.md', import.meta.url), settingsReference());
await writeFile(new URL('../docs/dbus.md', import.meta.url), apiReference());

/**
 * Writes the pages of `docs/` that follow from the program: `npm run docs`. A unit test checks that
 * they are up to date.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { apiReference } from '../src/api/api-reference.ts';
import { settingsReference } from '../src/config/settings-reference.ts';
import { jsonSchemas } from './json-schemas.ts';

await writeFile(new URL('../docs/settings.md', import.meta.url), settingsReference());
await writeFile(new URL('../docs/dbus.md', import.meta.url), apiReference());
await mkdir(new URL('../docs/json/', import.meta.url), { recursive: true });
for (const [name, text] of Object.entries(jsonSchemas()))
  await writeFile(new URL(`../docs/json/${name}`, import.meta.url), text);

/**
 * Writes the pages of `docs/` that follow from the program: `npm run docs`. A unit test checks that
 * they are up to date.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { loadSource } from './load-source.mjs';

const { apiReference } = await loadSource('src/api/api-reference.ts');
const { settingsReference } = await loadSource('src/config/settings-reference.ts');
const { jsonSchemas } = await loadSource('packaging/json-schemas.ts');

await writeFile(new URL('../docs/settings.md', import.meta.url), settingsReference());
await writeFile(new URL('../docs/dbus.md', import.meta.url), apiReference());
await mkdir(new URL('../docs/json/', import.meta.url), { recursive: true });
for (const [name, text] of Object.entries(jsonSchemas()))
  await writeFile(new URL(`../docs/json/${name}`, import.meta.url), text);

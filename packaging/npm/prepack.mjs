/**
 * Bundles the program of the package for the factory anew, with the licences of what it is bundled
 * from. npm runs this before it packs; the native modules go into the package as npm keeps them.
 */
import { execFileSync } from 'node:child_process';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { licencesOf } from '../stage/licences.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
const program = join(root, 'dist/npm');

execFileSync(process.execPath, [join(root, 'packaging/build.mjs'), program], { stdio: 'inherit' });
const list = join(program, 'bundled-packages.json');
const bundled = JSON.parse(await readFile(list, 'utf8'));
await rm(list);
await writeFile(join(program, 'LICENSES.third-party.txt'), await licencesOf(root, bundled));

/**
 * Makes the package for the factory: run `npm run pack` after `npm ci`. The program in it is
 * bundled anew each time, with the licences of what it is bundled from. The native modules go into
 * it as npm keeps them.
 *
 * Usage: `node packaging/npm/pack.mjs [OUTDIR]`
 */
import { execFileSync } from 'node:child_process';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { argv } from 'node:process';
import { fileURLToPath } from 'node:url';
import { licencesOf } from '../stage/licences.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
const program = join(root, 'dist/npm');

execFileSync(process.execPath, [join(root, 'packaging/build.mjs'), program], { stdio: 'inherit' });
const list = join(program, 'bundled-packages.json');
const bundled = JSON.parse(await readFile(list, 'utf8'));
await rm(list);
await writeFile(join(program, 'LICENSES.third-party.txt'), await licencesOf(root, bundled));
// The folder is given, since .npmrc names none that exists.
execFileSync('npm', ['pack', '--pack-destination', resolve(argv[2] ?? root)], { cwd: root, stdio: 'inherit' });

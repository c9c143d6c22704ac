/**
 * Makes all packages of this version in `dist`, each with Node.js and native modules inside: run
 * `npm run package` after `npm ci`. The same input makes the same bytes.
 *
 * Usage: `node packaging/package.mjs [OUTDIR] [--arch x64]... [--format deb]... [--sign-key FILE]`;
 * `STICKPIN_SIGN_KEY` names the key too.
 */
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, relative, resolve } from 'node:path';
import { env, exit, stderr, stdout } from 'node:process';
import { parseArgs } from 'node:util';
import { makeArchive } from './formats/archive.mjs';
import { makeCockpitDeb, makeDeb } from './formats/deb.mjs';
import { makeCockpitRpm, makeRpm } from './formats/rpm.mjs';
import { makeSysext } from './formats/sysext.mjs';
import { writeProvenance } from './release/provenance.mjs';
import { releaseNotes } from './release/release-text.ts';
import { signFile, writeSums } from './release/sums.mjs';
import { ARCHITECTURES } from './stage/architectures.mjs';
import { stageCockpit } from './stage/cockpit.mjs';
import { needsOf } from './stage/elf.mjs';
import { about, root } from './stage/project.mjs';
import { checkSize } from './stage/size.mjs';
import { stageArchive } from './stage/stage.mjs';

const FORMATS = { archive: makeArchive, deb: makeDeb, rpm: makeRpm, sysext: makeSysext };
/** Of the page for Cockpit. */
const COCKPIT_FORMATS = { deb: makeCockpitDeb, rpm: makeCockpitRpm };

/** The parts of the command line, each checked. */
function readOptions() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      arch: { type: 'string', multiple: true },
      format: { type: 'string', multiple: true },
      'sign-key': { type: 'string' },
    },
  });
  if (positionals.length > 1) throw new Error(`unexpected ${positionals[1]}: there is one output folder`);
  return {
    dist: resolve(positionals[0] ?? join(root, 'dist')),
    arches: known('--arch', values.arch, ARCHITECTURES),
    formats: known('--format', values.format, FORMATS),
    signKey: values['sign-key'] ?? (env.STICKPIN_SIGN_KEY || undefined),
  };
}

function known(flag, wanted, table) {
  for (const name of wanted ?? []) {
    if (!Object.hasOwn(table, name)) throw new Error(`${flag} ${name}: known are ${Object.keys(table).join(', ')}`);
  }
  return [...new Set(wanted ?? Object.keys(table))];
}

const pageOf = (path) => readFile(join(root, path), 'utf8');

async function makePackages({ dist, arches, formats, signKey }) {
  await mkdir(dist, { recursive: true });
  const made = [];
  for (const arch of arches) {
    const stage = join(dist, `stickpin-${about.version}-linux-${arch}`);
    await stageArchive(stage, arch);
    const { GLIBC, GLIBCXX, libraries } = await needsOf(join(stage, 'lib'), arch);
    stdout.write(`${arch}: needs glibc ${GLIBC}, GLIBCXX ${GLIBCXX} (${libraries.join(', ')})\n`);
    stdout.write(`${arch}: ${await checkSize(stage)}\n`);
    const bill = join(dist, `stickpin-${about.version}-linux-${arch}.cdx.json`);
    await cp(join(stage, 'doc/sbom.cdx.json'), bill);
    made.push(bill);
    for (const format of formats) made.push(...(await FORMATS[format]({ arch, stage, dist })));
    await rm(stage, { recursive: true });
  }
  for (const format of formats.filter((name) => Object.hasOwn(COCKPIT_FORMATS, name))) {
    const tree = join(dist, `stickpin-cockpit-${about.version}.${format}-tree`);
    await stageCockpit(tree);
    made.push(...(await COCKPIT_FORMATS[format]({ tree, dist })));
  }
  if (formats.includes('rpm')) {
    for (const name of ['Containerfile', 'machine-config']) {
      await cp(join(root, 'packaging/image', name), join(dist, name));
      made.push(join(dist, name));
    }
  }
  const notes = join(dist, 'RELEASE-NOTES.md');
  await writeFile(notes, releaseNotes(about.version, await pageOf('CHANGELOG.md'), await pageOf('docs/install.md')));
  made.push(notes, await writeProvenance(dist, made, { arches, formats }));
  const sums = await writeSums(dist, made);
  await rm(`${sums}.sig`, { force: true });
  const signed = signKey === undefined ? [] : [await signFile(sums, signKey)];
  for (const file of [...made, sums, ...signed]) stdout.write(`${relative(process.cwd(), file)}\n`);
  if (signKey === undefined) stdout.write('SHA256SUMS is not signed: name a key with --sign-key\n');
}

try {
  await makePackages(readOptions());
} catch (error) {
  stderr.write(`package: ${error.message}\n`);
  exit(1);
}

import { createHash } from 'node:crypto';
import { chmod, cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { gzipSync } from 'node:zlib';
import { ARCHITECTURES } from '../stage/architectures.mjs';
import { about, epoch, root, run } from '../stage/project.mjs';
import { settle, stageTree } from '../stage/stage.mjs';

const sources = join(root, 'packaging/debian');

/** Makes the package for Debian, Ubuntu and their kin (deb(5)). */
export async function makeDeb({ arch, stage, dist }) {
  const tree = `${stage}.deb-tree`;
  await stageTree(tree, stage, 'deb');
  const overrides = join(tree, 'usr/share/lintian/overrides');
  await mkdir(overrides, { recursive: true });
  await cp(join(sources, 'lintian-overrides'), join(overrides, 'stickpin'));
  const scripts = ['triggers', 'postinst', 'prerm', 'postrm'];
  return [await buildDeb(tree, dist, { name: 'stickpin', arch: ARCHITECTURES[arch].deb, control: 'control', scripts })];
}

/** Makes the package of the page for Cockpit, which is the same on every architecture. */
export async function makeCockpitDeb({ tree, dist }) {
  return [
    await buildDeb(tree, dist, { name: 'stickpin-cockpit', arch: 'all', control: 'control.cockpit', scripts: [] }),
  ];
}

/** Completes the tree, and makes the package of it. */
async function buildDeb(tree, dist, { name, arch, control, scripts }) {
  await layDebianFiles(tree, name);
  await writeControl(tree, arch, control);
  for (const script of scripts) {
    const to = join(tree, 'DEBIAN', script);
    await cp(join(sources, script), to);
    if (script !== 'triggers') await chmod(to, 0o755);
  }
  settle(tree);
  const file = join(dist, `${name}_${about.version}_${arch}.deb`);
  run('dpkg-deb', ['--root-owner-group', '-Zxz', '-z1', '--build', tree, file]);
  await rm(tree, { recursive: true });
  return file;
}

/** What Debian's policy wants in a package beside its files (Debian Policy Manual, chapter 12). */
async function layDebianFiles(tree, name) {
  const doc = join(tree, 'usr/share/doc', name);
  await rm(join(doc, 'LICENSE')); // in the file copyright
  const copyright = await readFile(join(sources, 'copyright'), 'utf8');
  await writeFile(join(doc, 'copyright'), copyright.replaceAll('@NAME@', name));
  const date = new Date(Number(epoch) * 1000).toUTCString().replace('GMT', '+0000');
  const changes = `${name} (${about.version}) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- ${about.author}  ${date}\n`;
  await writeFile(join(doc, 'changelog.gz'), gzipSync(changes, { level: 9 }));
}

async function writeControl(tree, arch, name) {
  const entries = await readdir(tree, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const sums = await Promise.all(
    files.sort().map(async (file) => {
      const sum = createHash('md5')
        .update(await readFile(file))
        .digest('hex');
      return { line: `${sum}  ${relative(tree, file)}\n`, sizeBytes: (await readFile(file)).length };
    }),
  );
  const sizeKib = sums.reduce((total, { sizeBytes }) => total + Math.ceil(sizeBytes / 1024), 0);
  const control = join(tree, 'DEBIAN');
  await mkdir(control);
  const values = {
    VERSION: about.version,
    ARCHITECTURE: arch,
    MAINTAINER: about.author,
    SIZE: sizeKib,
  };
  const template = await readFile(join(sources, name), 'utf8');
  await writeFile(
    join(control, 'control'),
    template.replace(/@(\w+)@/g, (_all, name) => values[name]),
  );
  await writeFile(join(control, 'md5sums'), sums.map(({ line }) => line).join(''));
}

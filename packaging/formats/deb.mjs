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
  await layDebianFiles(tree);
  await writeControl(tree, arch);
  settle(tree);
  const file = join(dist, `stickpin_${about.version}_${ARCHITECTURES[arch].deb}.deb`);
  run('dpkg-deb', ['--root-owner-group', '-Zxz', '-z1', '--build', tree, file]);
  await rm(tree, { recursive: true });
  return [file];
}

/** What Debian's policy wants in a package beside its files (Debian Policy Manual, chapter 12). */
async function layDebianFiles(tree) {
  const doc = join(tree, 'usr/share/doc/stickpin');
  await rm(join(doc, 'LICENSE')); // in the file copyright
  await cp(join(sources, 'copyright'), join(doc, 'copyright'));
  const date = new Date(Number(epoch) * 1000).toUTCString().replace('GMT', '+0000');
  const changes = `stickpin (${about.version}) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- ${about.author}  ${date}\n`;
  await writeFile(join(doc, 'changelog.gz'), gzipSync(changes, { level: 9 }));
  const overrides = join(tree, 'usr/share/lintian/overrides');
  await mkdir(overrides, { recursive: true });
  await cp(join(sources, 'lintian-overrides'), join(overrides, 'stickpin'));
}

async function writeControl(tree, arch) {
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
    ARCHITECTURE: ARCHITECTURES[arch].deb,
    MAINTAINER: about.author,
    SIZE: sizeKib,
  };
  const template = await readFile(join(sources, 'control'), 'utf8');
  await writeFile(
    join(control, 'control'),
    template.replace(/@(\w+)@/g, (_all, name) => values[name]),
  );
  await writeFile(join(control, 'md5sums'), sums.map(({ line }) => line).join(''));
  await cp(join(sources, 'triggers'), join(control, 'triggers'));
  for (const script of ['postinst', 'prerm', 'postrm']) {
    await cp(join(sources, script), join(control, script));
    await chmod(join(control, script), 0o755);
  }
}

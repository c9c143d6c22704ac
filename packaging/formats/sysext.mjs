import { cp, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { ARCHITECTURES } from '../stage/architectures.mjs';
import { about, root, run } from '../stage/project.mjs';
import { settle, stageTree } from '../stage/stage.mjs';

const sources = join(root, 'packaging/sysext');

/**
 * Links that have units started by targets. In an image of /usr, no preset can make them in /etc.
 */
const LINKS = {
  'multi-user.target.wants/stickpin.service': '../stickpin.service',
  'multi-user.target.wants/stickpin-clear-mirrors.service': '../stickpin-clear-mirrors.service',
  'sockets.target.wants/stickpin-registry.socket': '../stickpin-registry.socket',
};

/** Makes the image for systemd-sysext(8). On the node its name is `stickpin.raw`. */
export async function makeSysext({ arch, stage, dist }) {
  const tree = `${stage}.sysext-tree`;
  await stageTree(tree, stage, 'sysext');
  const units = join(tree, 'usr/lib/systemd/system');
  for (const [link, target] of Object.entries(LINKS)) {
    await mkdir(dirname(join(units, link)), { recursive: true });
    await symlink(target, join(units, link));
  }
  await cp(join(sources, 'stickpin-merged.service'), join(units, 'stickpin-merged.service'));
  await mkdir(join(units, 'multi-user.target.d'));
  await cp(join(sources, 'multi-user.conf'), join(units, 'multi-user.target.d/10-stickpin.conf'));
  await writeRelease(tree, arch);
  settle(tree);
  const file = join(dist, `stickpin-${about.version}-${ARCHITECTURES[arch].systemd}.sysext.raw`);
  await rm(file, { force: true });
  const options = ['-all-root', '-noappend', '-no-xattrs', '-comp', 'zstd', '-Xcompression-level', '9', '-quiet'];
  run('mksquashfs', [tree, file, ...options, '-no-progress']);
  await rm(tree, { recursive: true });
  return [file];
}

/** os-release(5), extension-release. `_any`: it fits each system that has its glibc. */
async function writeRelease(tree, arch) {
  const folder = join(tree, 'usr/lib/extension-release.d');
  await mkdir(folder, { recursive: true });
  const fields = {
    ID: '_any',
    ARCHITECTURE: ARCHITECTURES[arch].systemd,
    EXTENSION_RELOAD_MANAGER: '1',
  };
  const lines = Object.entries(fields).map(([name, value]) => `${name}=${value}\n`);
  await writeFile(join(folder, 'extension-release.stickpin'), lines.join(''));
}

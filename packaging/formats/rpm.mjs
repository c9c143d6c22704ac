import { mkdir, mkdtemp, readdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { ARCHITECTURES } from '../stage/architectures.mjs';
import { about, epoch, root, run } from '../stage/project.mjs';
import { nodeFiles, settle, stageTree } from '../stage/stage.mjs';

const sources = join(root, 'packaging/rpm');

/** Makes the package for Fedora, RHEL and their kin, with Debian's rpmbuild too. */
export async function makeRpm({ arch, stage, dist }) {
  const tree = `${stage}.rpm-tree`;
  await stageTree(tree, stage, 'rpm');
  return [
    await buildRpm(tree, dist, { spec: 'stickpin.spec', arch: ARCHITECTURES[arch].rpm, files: await fileList() }),
  ];
}

/** Makes the package of the page for Cockpit, which is the same on every architecture. */
export async function makeCockpitRpm({ tree, dist }) {
  const files = '/usr/share/cockpit/stickpin\n%doc /usr/share/doc/stickpin-cockpit\n';
  return [await buildRpm(tree, dist, { spec: 'stickpin-cockpit.spec', arch: 'noarch', files })];
}

async function buildRpm(tree, dist, { spec, arch, files }) {
  const work = `${tree}.work`;
  settle(tree);
  await rm(work, { recursive: true, force: true });
  await mkdir(work);
  await writeFile(join(work, 'files'), files);
  // rpmbuild takes no path with a blank.
  const links = await mkdtemp(join(tmpdir(), 'stickpin-rpm-'));
  for (const [link, target] of Object.entries({ dist, sources })) await symlink(target, join(links, link));
  const folders = { tree: join(links, 'dist', basename(tree)), work: join(links, 'dist', basename(work)) };
  try {
    run('rpmbuild', ['-bb', '--target', `${arch}-linux`, ...definitions(folders), join(links, 'sources', spec)]);
  } finally {
    await rm(links, { recursive: true });
  }
  const [name] = await readdir(join(work, 'rpms', arch));
  const file = join(dist, name);
  await rename(join(work, 'rpms', arch, name), file);
  for (const folder of [tree, work]) await rm(folder, { recursive: true });
  return file;
}

async function fileList() {
  const targets = (await nodeFiles()).map(({ target }) => target);
  const lines = targets.map((target) => (/^\/usr\/share\/(doc|man)\//.test(target) ? `%doc ${target}` : target));
  return `${lines.join('\n')}\n`;
}

function definitions({ tree, work }) {
  const values = {
    stickpin_version: about.version,
    stickpin_packager: about.author,
    stickpin_homepage: about.homepage,
    stickpin_tree: tree,
    stickpin_files: join(work, 'files'),
    stickpin_date: changelogDate(),
    _topdir: work,
    _rpmdir: join(work, 'rpms'),
    // What else would tell machine and moment of the build.
    _buildhost: 'reproducible',
    use_source_date_epoch_as_buildtime: '1',
    clamp_mtime_to_source_date_epoch: '1',
    source_date_epoch_from_changelog: '0',
    _build_id_links: 'none',
    _binary_payload: 'w9.zstdio',
  };
  return Object.entries(values).flatMap(([name, value]) => ['--define', `${name} ${value}`]);
}

/** As in `Mon Jan 05 2026`. */
function changelogDate() {
  const [day, date, month, year] = new Date(Number(epoch) * 1000).toUTCString().replace(',', '').split(' ');
  return `${day} ${month} ${date} ${year}`;
}

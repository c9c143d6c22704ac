import { chmod, cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { loadSource } from '../load-source.mjs';
import { licencesOf } from './licences.mjs';
import { manualFiles, stageManual } from './manual-pages.mjs';
import { moduleFolder, nativeModules, runtimeModule } from './modules.mjs';
import { epoch, root, run } from './project.mjs';
import { billOfMaterials } from './sbom.mjs';

const { completionFiles } = await loadSource('src/cli/completion.ts');
const { definedProgram } = await loadSource('src/cli/manual.ts');

/** Documentation of the repository that goes to a node. */
const DOCUMENTS = ['README.md', 'CHANGELOG.md', 'SECURITY.md', 'docs'];

/** Parts of `lib` that are not a program: scripts and files that setup puts where they belong. */
const SCRIPTS = ['setup', 'remove', 'uninstall'];

/**
 * Makes the folder of the unpacked archive for one architecture: program, Node.js, native modules,
 * units, manual, documentation, licences and scripts. Every format is made of it.
 */
export async function stageArchive(stage, arch) {
  await rm(stage, { recursive: true, force: true });
  const lib = join(stage, 'lib');
  run(process.execPath, [join(root, 'packaging/build.mjs'), join(lib, 'dist')]);
  const bundled = JSON.parse(await readFile(join(lib, 'dist/bundled-packages.json'), 'utf8'));
  await rm(join(lib, 'dist/bundled-packages.json'));
  await cp(join(root, 'proto'), join(lib, 'proto'), { recursive: true });
  const native = await stageModules(lib, arch);
  await stageIntegration(stage, lib);
  await stageDocuments(stage);
  await stageManual(join(stage, 'man'));
  await stageCompletion(stage);
  const folders = { ...Object.fromEntries(bundled.map((folder) => [folder, join(root, folder)])), ...native };
  await stageLicences(stage, arch, folders);
  await writeFile(join(stage, 'doc/sbom.cdx.json'), await billOfMaterials(arch, folders));
}

async function stageModules(lib, arch) {
  const folders = {};
  for (const [name, files] of Object.entries(nativeModules(arch))) {
    folders[name] = await moduleFolder(name);
    for (const file of files) {
      const to = join(lib, 'node_modules', name, file);
      await cp(join(folders[name], file), to, { recursive: true });
      if (file.endsWith('.node')) await chmod(to, 0o644);
    }
  }
  await mkdir(join(lib, 'bin'), { recursive: true });
  await cp(join(await moduleFolder(runtimeModule(arch)), 'bin/node'), join(lib, 'bin/node'));
  await chmod(join(lib, 'bin/node'), 0o755);
  return folders;
}

async function stageIntegration(stage, lib) {
  await cp(join(root, 'systemd'), join(stage, 'systemd'), { recursive: true });
  await cp(join(root, 'udev'), join(stage, 'udev'), { recursive: true });
  const node = join(root, 'packaging/node');
  for (const script of ['install.sh', 'uninstall.sh']) await copyProgram(join(node, script), join(stage, script));
  await copyProgram(join(root, 'packaging/stickpin'), join(stage, 'stickpin'));
  for (const script of SCRIPTS) await copyProgram(join(node, script), join(lib, script));
  const scripts = [
    'clear-mirrors',
    'keep-mirrors',
    'openshift-upgrade',
    'microshift-manifests',
    'host-image',
    'self-update',
  ];
  for (const script of scripts) await copyProgram(join(root, 'systemd', script), join(lib, script));
  for (const file of ['inside.sh', 'stickpin.cil']) await cp(join(node, file), join(lib, file));
  await writeFile(join(lib, 'files'), await fileLines());
  for (const file of ['crio-guard.conf', 'stickpin-crio.tmpfiles.conf'])
    await cp(join(root, 'systemd', file), join(lib, file));
}

async function copyProgram(source, target) {
  await cp(source, target);
  await chmod(target, 0o755);
}

async function stageDocuments(stage) {
  for (const document of DOCUMENTS) await cp(join(root, document), join(stage, 'doc', document), { recursive: true });
  await cp(join(root, 'LICENSE'), join(stage, 'doc/LICENSE'));
  for (const file of ['fleet.yaml', 'upgrade-gate.yaml'])
    await cp(join(root, 'packaging/node', file), join(stage, 'doc', file));
}

const DEBIAN_COMPLETION = '#compdef stickpin\n. /usr/share/zsh/site-functions/_stickpin\n';

/** For each shell, made from the definitions of the commands. */
async function stageCompletion(stage) {
  await mkdir(join(stage, 'completion/debian'), { recursive: true });
  for (const [name, text] of Object.entries(completionFiles(definedProgram())))
    await writeFile(join(stage, 'completion', name), text);
  // Debian's zsh looks in a folder of its own. A package may not have a file twice.
  await writeFile(join(stage, 'completion/debian/_stickpin'), DEBIAN_COMPLETION);
}

/** One file with the licence of each package whose code travels along. */
async function stageLicences(stage, arch, folders) {
  // The binary of koffi is a package without a licence text of its own.
  const own = Object.entries(folders).flatMap(([name, folder]) => (name.startsWith('@koromix/') ? [] : [folder]));
  const all = [...own, await moduleFolder(runtimeModule(arch))].map((folder) => relative(root, folder));
  await writeFile(join(stage, 'doc/LICENSES.third-party.txt'), await licencesOf(root, all));
}

/** `packaging/node/files`, with a line for each manual page. */
async function fileLines() {
  const text = await readFile(join(root, 'packaging/node/files'), 'utf8');
  return `${text}${(await manualFiles()).join('\n')}\n`;
}

/** What goes where on a node. */
export async function nodeFiles() {
  return (await fileLines())
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const [type, mode, source, target] = line.split(' ');
      return { type, mode, source, target };
    });
}

/**
 * Gives every file and folder below `folder` the modes and the time that packages have, whatever
 * the umask and the clock of this machine are.
 */
export function settle(folder) {
  run('chmod', ['-R', 'u=rwX,go=rX', folder]);
  run('find', [folder, '-exec', 'touch', '--no-dereference', `--date=@${epoch}`, '{}', '+']);
}

/** Notes the format of the package in `lib`, and which files belong to it. */
export async function noteFormat(lib, format) {
  await writeFile(join(lib, 'format'), `${format}\n`);
  await writeFile(join(lib, 'manifest'), '');
  const entries = await readdir(lib, { recursive: true, withFileTypes: true });
  const names = entries
    .filter((entry) => entry.isFile())
    .map((entry) => `./${relative(lib, join(entry.parentPath, entry.name))}`);
  // As `LC_ALL=C sort` has it: by bytes.
  names.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  await writeFile(join(lib, 'manifest'), `${names.join('\n')}\n`);
}

/** Makes the tree of a node with everything in /usr, out of the staged archive. */
export async function stageTree(tree, stage, format) {
  await rm(tree, { recursive: true, force: true });
  for (const { type, mode, source, target } of await nodeFiles()) {
    const to = join(tree, target);
    await mkdir(dirname(to), { recursive: true });
    // Hard links, since it is large; nothing is written in place afterwards.
    run('cp', ['-Rl', join(stage, source), to]);
    if (type === 'file') await chmod(to, Number.parseInt(mode, 8));
  }
  const lib = join(tree, 'usr/lib/stickpin');
  for (const note of ['format', 'manifest']) await rm(join(lib, note), { force: true });
  await noteFormat(lib, format);
}

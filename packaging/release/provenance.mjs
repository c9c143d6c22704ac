import { execFileSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { lockedModule, runtimeModule } from '../stage/modules.mjs';
import { about, epoch, git, root } from '../stage/project.mjs';
import { sha256Of } from './sums.mjs';

/** What makes each format, as it names its version. Another version may make other bytes. */
const TOOLS = {
  archive: ['tar --version', 'gzip --version'],
  deb: ['dpkg-deb --version'],
  rpm: ['rpmbuild --version'],
  sysext: ['mksquashfs -version'],
};

/**
 * Writes what the files were made from and with: an in-toto statement (v1) with the provenance of
 * SLSA (v1). It has no signature of its own, since SHA256SUMS names it. The same input and the same
 * tools make the same text.
 */
export async function writeProvenance(dist, files, { arches, formats }) {
  const subject = await Promise.all(
    files.map(async (file) => ({ name: basename(file), digest: { sha256: await sha256Of(file) } })),
  );
  const statement = {
    _type: 'https://in-toto.io/Statement/v1',
    subject: subject.sort((a, b) => (a.name < b.name ? -1 : 1)),
    predicateType: 'https://slsa.dev/provenance/v1',
    predicate: {
      buildDefinition: {
        buildType: `${about.homepage}/build/npm-run-package/v1`,
        externalParameters: { version: about.version, arch: arches, format: formats, SOURCE_DATE_EPOCH: epoch },
        resolvedDependencies: [
          ...source(),
          { name: 'package-lock.json', digest: { sha256: await sha256Of(join(root, 'package-lock.json')) } },
          ...(await Promise.all(arches.map(runtime))),
        ],
      },
      runDetails: { builder: { id: `${about.homepage}/build/by-hand`, version: toolVersions(formats) } },
    },
  };
  const path = join(dist, `stickpin-${about.version}.provenance.json`);
  await writeFile(path, `${JSON.stringify(statement, null, 2)}\n`);
  return path;
}

/** The commit, and whether other files than its own were packed. Nothing outside of a clone. */
function source() {
  const gitCommit = git('rev-parse', 'HEAD');
  if (gitCommit === undefined) return [];
  const isChanged = git('status', '--porcelain') !== '';
  return [{ name: 'source', digest: { gitCommit }, ...(isChanged && { annotations: { changed: true } }) }];
}

/** The official binary of Node.js, by the digest that the lock file has of its archive. */
async function runtime(arch) {
  const { version, integrity } = await lockedModule(runtimeModule(arch));
  const sha512 = Buffer.from(integrity.replace('sha512-', ''), 'base64').toString('hex');
  return { uri: `pkg:npm/${runtimeModule(arch)}@${version}`, digest: { sha512 } };
}

function toolVersions(formats) {
  const commands = formats.flatMap((format) => TOOLS[format]).map((command) => command.split(' '));
  const versions = commands.map(([tool, flag]) => {
    const [line] = execFileSync(tool, [flag], { encoding: 'utf8', env: { ...process.env, LC_ALL: 'C' } }).split('\n');
    return [tool, line.trim()];
  });
  return { node: process.version, ...Object.fromEntries(versions) };
}

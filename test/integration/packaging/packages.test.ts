import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { appendFileSync, existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import packageJson from '../../../package.json' with { type: 'json' };
import { definedProgram, manualCommands } from '../../../src/cli/manual.ts';
import { commandsOf } from '../../support/docs/marked-blocks.ts';
import { entriesBelow } from '../../support/files/entries-below.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';
import { makePackages, packagingNeeds } from '../../support/packages/make-packages.ts';
import { have, program, withHelpers } from '../../support/requirements.ts';
import { execute } from '../../support/rootfs/execute.ts';

const { version } = packageJson;
const needs = [
  ...packagingNeeds,
  withHelpers('lintian', 'apt-get install lintian'),
  withHelpers('rpmlint', 'apt-get install rpmlint'),
  program('rpm2cpio', 'apt-get install rpm'),
  program('cpio', 'apt-get install cpio'),
  program('unsquashfs', 'apt-get install squashfs-tools'),
];

describe.runIf(have('openssl', 'npm', ...needs))('npm run package', () => {
  const work = folderForAll();
  let made: string;
  let printed: string;

  beforeAll(async () => {
    made = join(work, 'made');
    // As the page says, but for where the packages go.
    const make = commandsOf('docs/install.md', 'make').split('\n').slice(0, 2).join('\n');
    await execute(['/bin/sh', '-ec', make], { cwd: work });
    printed = await makePackages(made, ['--sign-key', join(work, 'release.key')]);
  }, 600_000);

  const file = (name: string) => join(made, name);
  // lintian leaves files in TMPDIR.
  const shell = (command: string, cwd = made) =>
    spawnSync('/bin/sh', ['-ec', command], { cwd, encoding: 'utf8', env: { ...process.env, TMPDIR: work } });

  /** The files of each format for x86-64, unpacked. */
  async function unpacked(format: 'deb' | 'rpm' | 'sysext'): Promise<string> {
    const to = join(work, `unpacked-${format}`);
    const command = {
      deb: `dpkg-deb -x stickpin_${version}_amd64.deb ${to}`,
      rpm: `mkdir -p ${to} && rpm2cpio stickpin-${version}-1.x86_64.rpm | cpio -idm --quiet -D ${to}`,
      sysext: `unsquashfs -quiet -no-progress -dest ${to} stickpin-${version}-x86-64.sysext.raw`,
    }[format];
    if (!existsSync(to)) await execute(['/bin/sh', '-ec', command], { cwd: made });
    return to;
  }

  it('makes every format for both architectures, and tells what they need and take', () => {
    expect(readdirSync(made).sort()).toEqual(
      [
        'Containerfile',
        'RELEASE-NOTES.md',
        'SHA256SUMS',
        'SHA256SUMS.sig',
        'machine-config',
        `stickpin-${version}.provenance.json`,
        ...['x86_64', 'aarch64'].map((arch) => `stickpin-${version}-1.${arch}.rpm`),
        ...['x86-64', 'arm64'].map((arch) => `stickpin-${version}-${arch}.sysext.raw`),
        ...['x64', 'arm64'].map((arch) => `stickpin-${version}-linux-${arch}.cdx.json`),
        ...['x64', 'arm64'].map((arch) => `stickpin-${version}-linux-${arch}.tar.gz`),
        ...['amd64', 'arm64'].map((arch) => `stickpin_${version}_${arch}.deb`),
        `stickpin-cockpit_${version}_all.deb`,
        `stickpin-cockpit-${version}-1.noarch.rpm`,
      ].sort(),
    );
    for (const arch of ['x64', 'arm64']) {
      expect(printed).toMatch(
        new RegExp(`^${arch}: needs glibc 2\\.\\d+, GLIBCXX 3\\.4\\.\\d+ \\(.*libc\\.so\\.6`, 'm'),
      );
      const [, all, node] =
        new RegExp(`^${arch}: ([\\d.]+) MiB installed, of which Node.js takes ([\\d.]+) MiB$`, 'm').exec(printed) ?? [];
      expect(Number(all)).toBeLessThan(150);
      expect(Number(node)).toBeGreaterThan(100);
    }
  });

  it('makes the same bytes again, in another folder, with another umask and in another time zone', async () => {
    const before = process.umask(0o077);
    try {
      await makePackages(join(work, 'again'), [], { TZ: 'Asia/Kathmandu', LANG: 'de_DE.UTF-8' });
    } finally {
      process.umask(before);
    }
    const sums = (directory: string) => readFileSync(join(directory, 'SHA256SUMS'), 'utf8').split('\n');
    expect(sums(join(work, 'again'))).toEqual(sums(made));
  }, 600_000);

  it('signs the sums; a changed package or list is found with the commands of the page', async () => {
    const verify = commandsOf('docs/install.md', 'verify');
    await execute(['cp', join(work, 'release.pub'), made]);
    expect(shell(verify).stdout).toMatch(/^Signature Verified Successfully\n(.*: OK\n){16}$/);
    const copy = join(work, 'changed');
    await execute(['cp', '-a', made, copy]);
    appendFileSync(join(copy, 'Containerfile'), '\n');
    expect(shell(verify, copy)).toMatchObject({ status: 1, stdout: expect.stringContaining('Containerfile: FAILED') });
    appendFileSync(join(copy, 'SHA256SUMS'), `${'0'.repeat(64)}  other\n`);
    expect(shell(verify, copy)).toMatchObject({ status: 1, stdout: 'Signature Verification Failure\n' });
  });

  it('is clean for lintian and rpmlint', async () => {
    for (const name of readdirSync(made).filter((name) => name.endsWith('.deb'))) {
      const { status, stdout } = shell(`lintian --fail-on error,warning -X binaries/spelling ${name}`);
      expect(`${status} ${stdout}`).toBe('0 ');
    }
    const config = join(process.cwd(), 'packaging/rpm/rpmlint.toml');
    const { stdout } = shell(`rpmlint --config ${config} *.rpm`);
    expect(stdout).toMatch(/ 3 packages and 0 specfiles checked; 0 errors, 0 warnings/);
  }, 300_000);

  it('puts the same files into every format', async () => {
    const contents = async (format: Parameters<typeof unpacked>[0]) => {
      const root = await unpacked(format);
      const paths = entriesBelow(root)
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name).slice(root.length))
        .filter((path) => !/^\/usr\/lib\/stickpin\/(format|manifest)$/.test(path));
      const sum = (path: string) =>
        createHash('sha256')
          .update(readFileSync(root + path))
          .digest('hex');
      return Object.fromEntries(paths.sort().map((path) => [path, sum(path)]));
    };
    const own = {
      deb: /^\/usr\/share\/(lintian|doc\/stickpin\/(copyright|changelog\.gz)$)/,
      rpm: /^\/usr\/share\/doc\/stickpin\/LICENSE$/,
      sysext: /extension-release|stickpin-merged|multi-user\.target\.d|doc\/stickpin\/LICENSE$/,
    };
    const shared = async (format: 'deb' | 'rpm' | 'sysext') =>
      Object.fromEntries(Object.entries(await contents(format)).filter(([path]) => !own[format].test(path)));
    const deb = await shared('deb');
    expect(Object.keys(deb).length).toBeGreaterThan(40);
    expect(await shared('rpm')).toEqual(deb);
    expect(await shared('sysext')).toEqual(deb);
    expect(Object.keys(deb).filter((path) => !path.startsWith('/usr/'))).toEqual([]);
  });

  it('has an image that systemd-sysext takes on any system of its architecture', async () => {
    const release = (arch: string) =>
      shell(
        `unsquashfs -cat stickpin-${version}-${arch}.sysext.raw usr/lib/extension-release.d/extension-release.stickpin`,
      ).stdout;
    expect(release('x86-64')).toBe('ID=_any\nARCHITECTURE=x86-64\nEXTENSION_RELOAD_MANAGER=1\n');
    expect(release('arm64')).toContain('ARCHITECTURE=arm64\n');
  });

  it('lists in the bill of materials whatever has a licence in it', async () => {
    const doc = join(await unpacked('sysext'), 'usr/share/doc/stickpin');
    const bill = JSON.parse(readFileSync(join(doc, 'sbom.cdx.json'), 'utf8'));
    expect(readFileSync(file(`stickpin-${version}-linux-x64.cdx.json`), 'utf8')).toBe(
      readFileSync(join(doc, 'sbom.cdx.json'), 'utf8'),
    );
    expect(bill).toMatchObject({ bomFormat: 'CycloneDX', specVersion: '1.5', metadata: { component: { version } } });
    const licences = readFileSync(join(doc, 'LICENSES.third-party.txt'), 'utf8');
    const licensed = [...licences.matchAll(/^={80}\n(\S+) (\d\S*) \(/gm)].map(([, name, at]) => `${name}@${at}`);
    const listed = bill.components.map(({ purl }: { purl: string }) =>
      purl.replace('pkg:npm/', '').replace('%40', '@'),
    );
    // The binary of koffi is under the licence of koffi.
    expect(listed.filter((name: string) => !name.startsWith('@koromix/')).sort()).toEqual(licensed.sort());
    for (const component of bill.components) expect(component).toMatchObject({ hashes: [{ alg: 'SHA-512' }] });
    const [sqlite] = bill.components.find(({ name }: { name: string }) => name === 'better-sqlite3').components;
    expect(sqlite).toMatchObject({ name: 'sqlite', version: expect.stringMatching(/^3\.\d+\.\d+$/) });
    const node = bill.components.find(({ name }: { name: string }) => name === 'Node.js');
    expect(node.cpe).toBe(`cpe:2.3:a:nodejs:node.js:${node.version}:*:*:*:*:*:*:*`);
    expect(node.components.map(({ name }: { name: string }) => name)).toEqual(
      expect.arrayContaining(['openssl', 'v8', 'zlib']),
    );
  });

  it('has the manual page of each command, and the others', async () => {
    const man = join(await unpacked('deb'), 'usr/share/man');
    const named = (folder: string) => readdirSync(join(man, folder)).sort();
    const [, ...commands] = manualCommands(definedProgram());
    const pages = commands.map(({ path }) => `stickpin-${path.replaceAll(' ', '-')}.1.gz`);
    expect(named('man1')).toEqual(['stickpin.1.gz', ...pages].sort());
    expect([...named('man5'), ...named('man8')]).toEqual([
      'stickpin-bundle.5.gz',
      'stickpin.toml.5.gz',
      'stickpin.service.8.gz',
    ]);
  });

  it.each([
    [['--arch', 'riscv64'], /^package: --arch riscv64: known are x64, arm64\n$/],
    [['--format', 'apk'], /^package: --format apk: known are archive, deb, rpm, sysext\n$/],
    [['--sign-key', '/nonexistent', '--format', 'archive', '--arch', 'x64'], /^package: .*\/nonexistent/],
  ])('refuses %j', (args, message) => {
    const { status, stderr } = spawnSync(process.execPath, ['packaging/package.mjs', join(work, 'none'), ...args], {
      encoding: 'utf8',
    });
    expect(status).toBe(1);
    expect(stderr).toMatch(message);
  });
});

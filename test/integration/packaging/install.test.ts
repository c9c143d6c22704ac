import { execFileSync, spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import packageJson from '../../../package.json' with { type: 'json' };
import { entriesBelow } from '../../support/files/entries-below.ts';
import { folderForAll, folderForEach, temporaryFolder } from '../../support/files/temporary-folder.ts';
import { archiveNeed, makePackage } from '../../support/packages/make-packages.ts';
import { have } from '../../support/requirements.ts';

describe.runIf(have(archiveNeed))('the archive', () => {
  let unpacked: string;
  const work = folderForAll();
  const root = folderForEach();

  beforeAll(async () => {
    execFileSync('tar', ['-xzf', await makePackage('archive', work), '-C', work]);
    unpacked = join(work, `stickpin-${packageJson.version}-linux-${process.arch}`);
  });

  const script = (name: string, ...args: string[]) =>
    spawnSync('/bin/sh', [join(unpacked, name), '--root', root, ...args], { encoding: 'utf8' });
  const install = (...args: string[]): string => {
    const { status, stdout, stderr } = script('install.sh', ...args);
    expect(`${status} ${stderr}`).toBe('0 ');
    return stdout;
  };
  const files = (): string[] =>
    entriesBelow(root)
      .filter((entry) => !entry.isDirectory())
      .map((entry) => join(entry.parentPath, entry.name).slice(root.length))
      .filter((path) => !path.startsWith('/var/lib/systemd/catalog'))
      .sort();
  const installed = (path: string): string => join(root, path);

  it('installs every file where the system looks for it', () => {
    expect(install()).toContain('/etc/stickpin/keys.d/');
    const outside = files().filter((path) => !/^\/usr\/(lib|share\/doc)\/stickpin\/|\/man1\/stickpin-/.test(path));
    expect(files()).toContain('/usr/share/man/man1/stickpin-bundle-create.1.gz');
    expect(outside).toEqual([
      '/etc/systemd/system/crio.service.d/10-stickpin.conf',
      '/etc/systemd/system/multi-user.target.wants/stickpin-clear-mirrors.service',
      '/etc/systemd/system/multi-user.target.wants/stickpin.service',
      '/etc/systemd/system/sockets.target.wants/stickpin-registry.socket',
      '/usr/bin/stickpin',
      '/usr/lib/systemd/catalog/stickpin.catalog',
      '/usr/lib/systemd/system-preset/80-stickpin.preset',
      '/usr/lib/systemd/system/stickpin-clear-mirrors.service',
      '/usr/lib/systemd/system/stickpin-console.service',
      '/usr/lib/systemd/system/stickpin-fleet.service',
      '/usr/lib/systemd/system/stickpin-host-booted.service',
      '/usr/lib/systemd/system/stickpin-host-switch.service',
      '/usr/lib/systemd/system/stickpin-microshift-manifests.service',
      '/usr/lib/systemd/system/stickpin-openshift-upgrade.service',
      '/usr/lib/systemd/system/stickpin-registry.socket',
      '/usr/lib/systemd/system/stickpin-self-update.service',
      '/usr/lib/systemd/system/stickpin-sources.service',
      '/usr/lib/systemd/system/stickpin.service',
      '/usr/lib/tmpfiles.d/stickpin.conf',
      '/usr/lib/udev/rules.d/90-stickpin.rules',
      '/usr/share/bash-completion/completions/stickpin',
      '/usr/share/dbus-1/system.d/io.stickpin1.conf',
      '/usr/share/fish/vendor_completions.d/stickpin.fish',
      '/usr/share/man/man1/stickpin.1.gz',
      '/usr/share/man/man5/stickpin-bundle.5.gz',
      '/usr/share/man/man5/stickpin.toml.5.gz',
      '/usr/share/man/man8/stickpin.service.8.gz',
      '/usr/share/polkit-1/actions/io.stickpin1.policy',
      '/usr/share/zsh/site-functions/_stickpin',
      '/usr/share/zsh/vendor-completions/_stickpin',
    ]);
    expect(statSync(installed('etc/stickpin/keys.d')).isDirectory()).toBe(true);
    for (const document of [
      'README.md',
      'LICENSE',
      'fleet.yaml',
      'upgrade-gate.yaml',
      'LICENSES.third-party.txt',
      'sbom.cdx.json',
      'docs/install.md',
    ])
      expect(statSync(installed(`usr/share/doc/stickpin/${document}`)).size).toBeGreaterThan(100);
  });

  it('installs a program that runs: the command line and the native modules load', () => {
    install();
    const cli = installed('usr/lib/stickpin/dist/cli/main.js');
    const node = installed('usr/lib/stickpin/bin/node');
    const run = (...args: string[]) =>
      execFileSync(node, args, { cwd: installed('usr/lib/stickpin'), encoding: 'utf8', env: {} }).trim();
    expect(run('--version')).toMatch(/^v24\./);
    expect(run(cli, '--version')).toBe(packageJson.version);
    run(
      '-e',
      "const D = require('better-sqlite3'); new D(':memory:').close(); require('koffi').load(null).func('int getpid()')();",
    );
    expect(existsSync(installed('usr/lib/stickpin/proto/runtime/v1/api.proto'))).toBe(true);
  });

  it("makes CRI-O's files only where CRI-O is, or where it is asked to", () => {
    const tmpfiles = installed('etc/tmpfiles.d/stickpin-crio.conf');
    install();
    expect(existsSync(tmpfiles)).toBe(false);
    expect(existsSync(installed('etc/crio'))).toBe(false);
    install('--crio', 'yes');
    expect(existsSync(tmpfiles)).toBe(true);
    rmSync(tmpfiles);
    mkdirSync(installed('etc/crio'));
    install();
    expect(existsSync(tmpfiles)).toBe(true);
  });

  /** Another program in place of one that install.sh calls; it can call that by its path. */
  const instead = (name: string, text: string) => {
    mkdirSync(join(root, 'bin'), { recursive: true });
    writeFileSync(join(root, 'bin', name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
    return { encoding: 'utf8', env: { PATH: `${join(root, 'bin')}:${process.env.PATH}` } } as const;
  };

  it('has the new program on the disk before the earlier one goes', () => {
    install();
    const calls = join(root, 'calls');
    instead('sync', `echo "sync $*" >>${calls}`);
    const options = instead('mv', `echo "mv $*" >>${calls}\nexec /bin/mv "$@"`);
    const { status } = spawnSync('/bin/sh', [join(unpacked, 'install.sh'), '--root', root], options);
    const lib = installed('usr/lib/stickpin');
    const order = [`sync -f ${lib}.new`, `mv ${lib} ${lib}.old`, `mv ${lib}.new ${lib}`];
    const lines = readFileSync(calls, 'utf8').split('\n');
    expect([status, lines.filter((line) => order.includes(line))]).toEqual([0, order]);
  });

  it('keeps the earlier program when it is cut while it replaces it, and the next run fails', () => {
    install();
    const lib = installed('usr/lib/stickpin');
    renameSync(lib, `${lib}.old`);
    const { status } = spawnSync('/bin/sh', [join(unpacked, 'install.sh'), '--root', root], instead('cp', 'exit 1'));
    expect([status, existsSync(join(lib, 'bin/node'))]).toEqual([1, true]);
    install();
    expect(existsSync(`${lib}.old`)).toBe(false);
  });

  it('changes nothing when it is installed again, and removes files of an older version', () => {
    install();
    const first = files();
    writeFileSync(installed('usr/lib/stickpin/dist/left-over.js'), '');
    writeFileSync(installed('etc/stickpin/keys.d/mine.pub'), 'key');
    mkdirSync(installed('usr/lib/stickpin/stickpin.toml.d'));
    writeFileSync(installed('usr/lib/stickpin/stickpin.toml.d/50-vendor.toml'), '');
    install();
    const kept = ['/etc/stickpin/keys.d/mine.pub', '/usr/lib/stickpin/stickpin.toml.d/50-vendor.toml'];
    expect(files()).toEqual([...first, ...kept].sort());
  });

  it('is uninstalled, and keeps keys and state unless --purge is given', () => {
    install('--crio', 'yes');
    writeFileSync(installed('etc/stickpin/keys.d/mine.pub'), 'key');
    mkdirSync(dirname(installed('var/lib/stickpin/state.db')), { recursive: true });
    writeFileSync(installed('var/lib/stickpin/state.db'), '');
    expect(script('uninstall.sh').status).toBe(0);
    expect(files()).toEqual(['/etc/stickpin/keys.d/mine.pub', '/var/lib/stickpin/state.db']);
    expect(script('uninstall.sh', '--purge').status).toBe(0);
    expect(files()).toEqual([]);
    expect(script('uninstall.sh').status).toBe(0);
  });

  it('removes links that the daemon has recorded, and no file in their place', () => {
    install('--crio', 'yes');
    const [made, file, other] = [
      'etc/crio/made.d/99-stickpin.conf',
      'etc/crio/file.d/99-stickpin.conf',
      'etc/crio/other.d/mine.conf',
    ] as const;
    const record = 'var/lib/stickpin/crio/links';
    for (const path of [made, file, other, record]) mkdirSync(dirname(installed(path)), { recursive: true });
    symlinkSync('/run/crio/crio.conf.d/99-stickpin.conf', installed(made));
    writeFileSync(installed(file), 'mine');
    symlinkSync('/etc/hostname', installed(other));
    writeFileSync(installed(record), [made, file, other].map((path) => `/${path}\n`).join(''));
    expect(script('uninstall.sh').status).toBe(0);
    expect(files()).toEqual([`/${file}`, `/${other}`]);
  });

  it('is uninstalled while its file of mirrors has none', () => {
    install();
    mkdirSync(installed('run/stickpin'), { recursive: true });
    writeFileSync(installed('run/stickpin/registries.conf'), '# Written by stickpin while images are loaded.\n');
    const { status, stderr } = script('uninstall.sh');
    expect(`${status} ${stderr}`).toBe('0 ');
    expect(existsSync(installed('etc/systemd/system/crio.service.d'))).toBe(false);
  });

  it.each([0o077, 0o000, 0o027])('sets the same modes whatever the umask is (%o)', (mask) => {
    const before = process.umask(mask);
    try {
      install('--crio', 'yes');
    } finally {
      process.umask(before);
    }
    const modeOf = (path: string) => (lstatSync(installed(path)).mode & 0o7777).toString(8);
    // The catalog is systemd's own.
    const made = entriesBelow(root)
      .filter((entry) => !entry.isSymbolicLink())
      .map(({ parentPath, name }) => join(parentPath, name).slice(root.length + 1))
      .filter((path) => !/^(usr|usr\/bin|usr\/bin\/node|var.*)$/.test(path));
    expect(made.filter((path) => !['755', '644'].includes(modeOf(path)))).toEqual([]);
    for (const folder of ['etc/stickpin', 'etc/stickpin/keys.d', 'usr/lib/stickpin', 'etc/systemd/system'])
      expect(modeOf(folder)).toBe('755');
    for (const file of ['usr/lib/systemd/system/stickpin.service', 'usr/lib/stickpin/dist/main.js'])
      expect(modeOf(file)).toBe('644');
    expect(modeOf('usr/bin/stickpin')).toBe('755');
  });

  describe('with links in the image', () => {
    let outside: string;
    beforeEach(() => {
      outside = temporaryFolder();
    });
    const link = (path: string, target: string): void => {
      mkdirSync(dirname(installed(path)), { recursive: true });
      symlinkSync(target, installed(path));
    };
    const found = (folder: string) =>
      entriesBelow(folder)
        .map(({ parentPath, name }) => join(parentPath, name).slice(folder.length + 1))
        .sort();

    it('installs and uninstalls inside the image when links are absolute, lead upwards or dangle', () => {
      mkdirSync(join(outside, 'systemd/system'), { recursive: true });
      mkdirSync(join(outside, 'stickpin/stickpin.toml.d'), { recursive: true });
      writeFileSync(join(outside, 'stickpin/stickpin.toml.d/host.toml'), 'of the host');
      mkdirSync(installed('merged'));
      link('lib', '/merged');
      link('usr/lib', '/lib');
      link('etc/systemd', join(outside, 'systemd'));
      link('etc/stickpin', `../../../../../../..${join(outside, 'stickpin')}`);
      link('usr/share/doc', join(outside, 'nowhere'));
      link('merged/stickpin', join(outside, 'stickpin'));
      link('usr/bin/stickpin', join(outside, 'program'));
      link('merged/tmpfiles.d/stickpin.conf', outside);
      const before = found(outside);
      install('--crio', 'yes');
      expect(found(outside)).toEqual(before);
      expect(lstatSync(installed('merged/stickpin')).isDirectory()).toBe(true);
      expect(existsSync(installed('merged/stickpin/stickpin.toml.d/host.toml'))).toBe(false);
      expect(existsSync(installed('merged/systemd/system/stickpin.service'))).toBe(true);
      expect(lstatSync(installed('merged/tmpfiles.d/stickpin.conf')).isFile()).toBe(true);
      expect(existsSync(installed(join(outside, 'systemd/system/crio.service.d/10-stickpin.conf').slice(1)))).toBe(
        true,
      );
      expect(existsSync(installed(join(outside, 'stickpin/keys.d').slice(1)))).toBe(true);
      expect(script('uninstall.sh', '--purge').status).toBe(0);
      expect(found(outside)).toEqual(before);
      const left = found(root).filter((path) => lstatSync(installed(path)).isFile());
      expect(left.filter((path) => !path.includes('systemd/catalog') && path !== 'usr/bin/node')).toEqual([]);
    });

    it('removes mirrors only inside the image', () => {
      const ours = '# Written by stickpin while images are loaded.\n# more\n# stickpin: {"madeDirectory":false}\n';
      install();
      writeFileSync(installed('usr/lib/stickpin/clear-mirrors'), `touch ${join(outside, 'was-run')}\n`);
      for (const folder of [join(outside, 'quay.io'), installed('certs/quay.io')]) {
        mkdirSync(folder, { recursive: true });
        writeFileSync(join(folder, 'hosts.toml'), ours);
      }
      writeFileSync(join(outside, 'registries.conf'), 'of the host');
      link('etc/containerd/certs.d', '/certs');
      link('certs/linked.io', join(outside, 'quay.io'));
      link('run/stickpin/registries.conf', join(outside, 'registries.conf'));
      expect(script('uninstall.sh').status).toBe(0);
      expect(existsSync(installed('certs/quay.io/hosts.toml'))).toBe(false);
      expect(readFileSync(join(outside, 'quay.io/hosts.toml'), 'utf8')).toBe(ours);
      expect(readFileSync(join(outside, 'registries.conf'), 'utf8')).toBe('of the host');
      expect(existsSync(join(outside, 'was-run'))).toBe(false);
    });

    it('refuses a loop of links and names the link', () => {
      link('etc/systemd', '/etc/systemd');
      const { status, stderr } = script('install.sh');
      expect(status).not.toBe(0);
      expect(stderr).toMatch(/^\/etc\/systemd\S* below \S+ leads in a circle of links \(\/etc\/systemd\): mend/);
    });
  });

  it('names what is missing on the machine', () => {
    const broken = join(work, 'broken');
    mkdirSync(join(broken, 'lib/dist'), { recursive: true });
    copyFileSync(join(unpacked, 'install.sh'), join(broken, 'install.sh'));
    const { status, stderr } = spawnSync('/bin/sh', [join(broken, 'install.sh'), '--root', root], { encoding: 'utf8' });
    expect(status).toBe(1);
    expect(stderr).toContain('lib/bin/node is missing');
  });

  it.each([['--what'], ['--crio', 'maybe']])('refuses the unknown option %s', (...args) => {
    expect(script('install.sh', ...args).status).toBe(2);
  });

  it('contains the licence of everything in it', () => {
    const text = readFileSync(join(unpacked, 'doc/LICENSES.third-party.txt'), 'utf8');
    for (const name of ['better-sqlite3', 'koffi', '@grpc/grpc-js', 'dbus-next', 'protobufjs', 'valibot']) {
      expect(text).toMatch(
        new RegExp(`^${name.replace('/', '\\/')} \\d+\\.\\d+\\.\\d+ \\((MIT|ISC|Apache-2\\.0|BSD-3-Clause)\\)$`, 'm'),
      );
    }
    expect(text).not.toContain('No licence text');
  });
});

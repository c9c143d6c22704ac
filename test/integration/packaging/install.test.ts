import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import packageJson from '../../../package.json' with { type: 'json' };
import { have, program } from '../../support/requirements.ts';

const repository = new URL('../../../', import.meta.url).pathname;

describe.runIf(have(program('tar', 'apt-get install tar')))('the archive', () => {
  let unpacked: string;
  let work: string;
  let root: string;

  beforeAll(() => {
    work = mkdtempSync(join(tmpdir(), 'stickpin-archive-'));
    const output = execFileSync(process.execPath, ['packaging/package.mjs', work], {
      cwd: repository,
      encoding: 'utf8',
    });
    const tarball = output.trim().split('\n').at(-1) ?? '';
    execFileSync('tar', ['-xzf', join(repository, tarball), '-C', work]);
    unpacked = join(work, `stickpin-${packageJson.version}-linux-${process.arch}`);
  });
  afterAll(() => rmSync(work, { recursive: true, force: true }));
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'stickpin-root-'));
    mkdirSync(join(root, 'usr/bin'), { recursive: true });
    writeFileSync(join(root, 'usr/bin/node'), '#!/bin/sh\n');
    chmodSync(join(root, 'usr/bin/node'), 0o755);
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));

  const script = (name: string, ...args: string[]) =>
    spawnSync('/bin/sh', [join(unpacked, name), '--root', root, ...args], { encoding: 'utf8' });
  const install = (...args: string[]): string => {
    const { status, stdout, stderr } = script('install.sh', ...args);
    expect(`${status} ${stderr}`).toBe('0 ');
    return stdout;
  };
  const files = (): string[] =>
    readdirSync(root, { recursive: true, withFileTypes: true })
      .filter((entry) => !entry.isDirectory())
      .map((entry) => join(entry.parentPath, entry.name).slice(root.length))
      .filter((path) => !path.startsWith('/var/lib/systemd/catalog') && path !== '/usr/bin/node')
      .sort();
  const installed = (path: string): string => join(root, path);

  it('puts everything where the system looks for it', () => {
    expect(install()).toContain('/etc/stickpin/keys.d/');
    const outside = files().filter((path) => !path.startsWith('/usr/lib/stickpin/'));
    expect(outside).toEqual([
      '/etc/systemd/system/crio.service.d/10-stickpin.conf',
      '/etc/systemd/system/multi-user.target.wants/stickpin-clear-mirrors.service',
      '/etc/systemd/system/multi-user.target.wants/stickpin.service',
      '/etc/systemd/system/sockets.target.wants/stickpin-registry.socket',
      '/usr/bin/stickpin',
      '/usr/lib/systemd/catalog/stickpin.catalog',
      '/usr/lib/systemd/system/stickpin-clear-mirrors.service',
      '/usr/lib/systemd/system/stickpin-registry.socket',
      '/usr/lib/systemd/system/stickpin.service',
      '/usr/lib/tmpfiles.d/stickpin.conf',
      '/usr/lib/udev/rules.d/90-stickpin.rules',
      '/usr/share/dbus-1/system.d/io.stickpin1.conf',
      '/usr/share/doc/stickpin/CHANGELOG.md',
      '/usr/share/doc/stickpin/LICENSE',
      '/usr/share/doc/stickpin/LICENSES.third-party.txt',
      '/usr/share/doc/stickpin/README.md',
    ]);
    expect(statSync(installed('etc/stickpin/keys.d')).isDirectory()).toBe(true);
  });

  it('installs what runs: the command line and the native modules load from there', () => {
    install();
    const cli = installed('usr/lib/stickpin/dist/cli/main.js');
    expect(execFileSync(process.execPath, [cli, '--version'], { encoding: 'utf8' }).trim()).toBe(packageJson.version);
    const load = "const D = require('better-sqlite3'); new D(':memory:').close(); require('unix-dgram');";
    execFileSync(process.execPath, ['-e', load], { cwd: installed('usr/lib/stickpin') });
    expect(existsSync(installed('usr/lib/stickpin/proto/runtime/v1/api.proto'))).toBe(true);
  });

  it("makes CRI-O's files only where CRI-O is, or where it is asked to", () => {
    const tmpfiles = installed('usr/lib/tmpfiles.d/stickpin-crio.conf');
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

  it('changes nothing when run again, and leaves nothing of an older version', () => {
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

  it('is taken off again, with keys and state kept unless they are to go', () => {
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

  it('says what is missing', () => {
    rmSync(installed('usr/bin/node'));
    const { status, stderr } = script('install.sh');
    expect(status).toBe(1);
    expect(stderr).toContain('install Node.js 20.19 or newer');
  });

  it.each([['--what'], ['--crio', 'maybe']])('knows no %s', (...args) => {
    expect(script('install.sh', ...args).status).toBe(2);
  });

  it('carries the licence of everything that it carries', () => {
    const text = readFileSync(join(unpacked, 'LICENSES.third-party.txt'), 'utf8');
    for (const name of [
      'better-sqlite3',
      'unix-dgram',
      'bindings',
      '@grpc/grpc-js',
      'dbus-next',
      'protobufjs',
      'valibot',
    ]) {
      expect(text).toMatch(
        new RegExp(`^${name.replace('/', '\\/')} \\d+\\.\\d+\\.\\d+ \\((MIT|ISC|Apache-2\\.0|BSD-3-Clause)\\)$`, 'm'),
      );
    }
    expect(text).not.toContain('No licence text');
  });
});

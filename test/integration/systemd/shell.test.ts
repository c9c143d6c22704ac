import { spawnSync } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const systemd = new URL('../../../systemd/', import.meta.url);

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'stickpin-root-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const put = (path: string, content: string): void => {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), content);
};
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

describe("the guard of CRI-O's drop-in", () => {
  const KEPT = 'var/lib/stickpin/crio/99-stickpin.conf';
  const RUN = 'run/crio/crio.conf.d/99-stickpin.conf';
  const LINK = 'etc/crio/crio.conf.d/99-stickpin.conf';

  /**
   * What systemd hands to the shell: line continuations joined, `$$` for `$`, moved below the
   * test's root.
   */
  const script = (): string => {
    const [, command] = /^ExecStartPre=-\/bin\/sh -c '((?:.|\n)*)'$/m.exec(read0('crio-guard.conf')) ?? [];
    if (command === undefined) throw new Error('no ExecStartPre= in crio-guard.conf');
    return command
      .replaceAll('\\\n', ' ')
      .replaceAll('$$', '$')
      .replace(/(?<=[ =])\/(?=var|run|etc)/g, `${root}/`);
  };
  const read0 = (name: string): string => readFileSync(new URL(name, systemd), 'utf8');
  const guard = (): number | null => spawnSync('/bin/sh', ['-c', script()], { stdio: 'inherit' }).status;
  const link = (): void => {
    mkdirSync(dirname(join(root, LINK)), { recursive: true });
    symlinkSync(join(root, RUN), join(root, LINK));
  };

  it('restores the pins after a reboot, without the daemon', () => {
    put(KEPT, 'pinned\n');
    link();
    expect(guard()).toBe(0);
    expect(read(LINK)).toBe('pinned\n');
    expect(lstatSync(join(root, RUN)).mode & 0o777).toBe(0o644);
  });

  it('puts the kept pins over what tmpfiles made', () => {
    put(KEPT, 'pinned\n');
    put(RUN, '');
    link();
    guard();
    expect(read(RUN)).toBe('pinned\n');
  });

  it('makes an empty file when nothing was ever pinned', () => {
    link();
    guard();
    expect(read(LINK)).toBe('');
  });

  it('leaves running pins alone when there are no kept ones', () => {
    put(RUN, 'running\n');
    link();
    guard();
    expect(read(LINK)).toBe('running\n');
  });

  it('takes a link away that would still lead nowhere', () => {
    put('run/crio', 'a file where a directory should be');
    link();
    expect(guard()).toBe(0);
    expect(() => lstatSync(join(root, LINK))).toThrow('ENOENT');
  });

  it('takes a link to a directory away', () => {
    mkdirSync(join(root, RUN), { recursive: true });
    link();
    expect(guard()).toBe(0);
    expect(() => lstatSync(join(root, LINK))).toThrow('ENOENT');
  });

  it('leaves a file of the user alone, and does well without a link', () => {
    put(LINK, 'mine\n');
    expect(guard()).toBe(0);
    expect(read(LINK)).toBe('mine\n');
    rmSync(join(root, LINK));
    expect(guard()).toBe(0);
    expect(existsSync(join(root, LINK))).toBe(false);
  });
});

describe('clear-mirrors', () => {
  const CERTS = 'etc/containerd/certs.d';
  const ours = (madeDirectory: boolean): string =>
    `# Written by stickpin while images are loaded.\n# more\n# stickpin: {"registry":"quay.io","madeDirectory":${madeDirectory}}\n`;
  const clear = (): void => {
    const script = new URL('clear-mirrors', systemd).pathname;
    const { status, stderr } = spawnSync('/bin/sh', [script], {
      env: { ...process.env, ROOT: root },
      encoding: 'utf8',
    });
    expect(stderr).toBe('');
    expect(status).toBe(0);
  };

  it("empties CRI-O's mirrors and keeps the file that the link leads to", () => {
    put('run/stickpin/registries.conf', '[[registry]]\n');
    clear();
    expect(read('run/stickpin/registries.conf')).toBe('');
  });

  it('puts a saved hosts.toml back', () => {
    put(`${CERTS}/quay.io/hosts.toml`, ours(false));
    put(`${CERTS}/quay.io/hosts.toml.stickpin-saved`, 'mine\n');
    clear();
    expect(read(`${CERTS}/quay.io/hosts.toml`)).toBe('mine\n');
    expect(existsSync(join(root, CERTS, 'quay.io/hosts.toml.stickpin-saved'))).toBe(false);
  });

  it('takes a directory away that was made for ours, and only the file from another', () => {
    put(`${CERTS}/made.io/hosts.toml`, ours(true));
    put(`${CERTS}/other.io/hosts.toml`, ours(false));
    put(`${CERTS}/other.io/ca.crt`, 'ca');
    clear();
    expect(existsSync(join(root, CERTS, 'made.io'))).toBe(false);
    expect(existsSync(join(root, CERTS, 'other.io/hosts.toml'))).toBe(false);
    expect(read(`${CERTS}/other.io/ca.crt`)).toBe('ca');
  });

  it('leaves what is not ours alone', () => {
    put(`${CERTS}/quay.io/hosts.toml`, 'server = "https://quay.io"\n');
    put(`${CERTS}/empty.io/hosts.toml`, '');
    clear();
    expect(read(`${CERTS}/quay.io/hosts.toml`)).toBe('server = "https://quay.io"\n');
    expect(existsSync(join(root, CERTS, 'empty.io/hosts.toml'))).toBe(true);
  });

  it('does nothing on a machine without any', () => {
    clear();
  });
});

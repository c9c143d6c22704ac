import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { FOLDERS_CLEARED_ANYWAY } from '../../../src/runtime/containerd/mirror-folders.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';

const systemd = new URL('../../../systemd/', import.meta.url);

const root = folderForEach();

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

  it('writes the kept pins over the file that tmpfiles made', () => {
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

  it('removes a link that would still dangle', () => {
    put('run/crio', 'a file where a directory should be');
    link();
    expect(guard()).toBe(0);
    expect(() => lstatSync(join(root, LINK))).toThrow('ENOENT');
  });

  it('removes a link to a directory', () => {
    mkdirSync(join(root, RUN), { recursive: true });
    link();
    expect(guard()).toBe(0);
    expect(() => lstatSync(join(root, LINK))).toThrow('ENOENT');
  });

  it('removes a link that dangles in another drop-in folder, which the daemon has recorded', () => {
    const other = 'etc/crio/custom dir/99-stickpin.conf';
    const whole = 'etc/crio/whole/99-stickpin.conf';
    for (const [path, target] of [
      [other, 'run/gone.conf'],
      [whole, RUN],
    ] as const) {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      symlinkSync(join(root, target), join(root, path));
    }
    put(KEPT, 'pinned\n');
    put('var/lib/stickpin/crio/links', `${join(root, other)}\n${join(root, whole)}\n`);
    link();
    expect(guard()).toBe(0);
    expect(() => lstatSync(join(root, other))).toThrow('ENOENT');
    expect([read(whole), read(LINK)]).toEqual(['pinned\n', 'pinned\n']);
  });

  it('leaves a file of the user alone, and works without a link', () => {
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
  const clear = (environment: Readonly<Record<string, string>> = {}): void => {
    const script = new URL('clear-mirrors', systemd).pathname;
    const { status, stderr } = spawnSync('/bin/sh', [script], {
      env: { ...process.env, ROOT: root, ...environment },
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

  describe('and CRI-O', () => {
    const asked = (environment: Readonly<Record<string, string>>): string => {
      put('bin/systemctl', `#!/bin/sh\necho "$*" >> ${root}/asked\n`);
      chmodSync(join(root, 'bin/systemctl'), 0o755);
      clear({ PATH: `${join(root, 'bin')}:${process.env.PATH}`, ...environment });
      return existsSync(join(root, 'asked')) ? read('asked') : '';
    };
    const MIRROR = '# header\n\n[[registry]]\nprefix = "quay.io/a"\n';

    it('reloads CRI-O after a crash of the daemon, so that it does not ask a registry that is gone', () => {
      put('run/stickpin/registries.conf', MIRROR);
      expect(asked({ SERVICE_RESULT: 'signal' })).toBe(
        '--no-block --job-mode=ignore-dependencies reload crio.service\n',
      );
    });

    it('does not reload CRI-O when the daemon has removed the mirrors itself', () => {
      put('run/stickpin/registries.conf', '# header\n');
      expect(asked({ SERVICE_RESULT: 'success' })).toBe('');
    });

    it('does not reload CRI-O at boot', () => {
      put('run/stickpin/registries.conf', MIRROR);
      expect(asked({})).toBe('');
    });
  });

  it('restores a saved hosts.toml', () => {
    put(`${CERTS}/quay.io/hosts.toml`, ours(false));
    put(`${CERTS}/quay.io/hosts.toml.stickpin-saved`, 'mine\n');
    clear();
    expect(read(`${CERTS}/quay.io/hosts.toml`)).toBe('mine\n');
    expect(existsSync(join(root, CERTS, 'quay.io/hosts.toml.stickpin-saved'))).toBe(false);
  });

  it('removes a directory that was made for our file, and only the file from another one', () => {
    put(`${CERTS}/made.io/hosts.toml`, ours(true));
    put(`${CERTS}/other.io/hosts.toml`, ours(false));
    put(`${CERTS}/other.io/ca.crt`, 'ca');
    clear();
    expect(existsSync(join(root, CERTS, 'made.io'))).toBe(false);
    expect(existsSync(join(root, CERTS, 'other.io/hosts.toml'))).toBe(false);
    expect(read(`${CERTS}/other.io/ca.crt`)).toBe('ca');
  });

  it('keeps what somebody else has put into a directory of ours', () => {
    put(`${CERTS}/made.io/hosts.toml`, ours(true));
    put(`${CERTS}/made.io/.hosts.toml.stickpin-new`, '');
    put(`${CERTS}/ca.io/hosts.toml`, ours(true));
    put(`${CERTS}/ca.io/ca.crt`, 'ca');
    put(`${CERTS}/hidden.io/hosts.toml`, ours(true));
    put(`${CERTS}/hidden.io/.note`, 'mine');
    clear();
    expect(readdirSync(join(root, CERTS)).sort()).toEqual(['ca.io', 'hidden.io']);
    expect(readdirSync(join(root, CERTS, 'ca.io'))).toEqual(['ca.crt']);
    expect(readdirSync(join(root, CERTS, 'hidden.io'))).toEqual(['.note']);
  });

  it('does not change files of others', () => {
    put(`${CERTS}/quay.io/hosts.toml`, 'server = "https://quay.io"\n');
    put(`${CERTS}/empty.io/hosts.toml`, '');
    clear();
    expect(read(`${CERTS}/quay.io/hosts.toml`)).toBe('server = "https://quay.io"\n');
    expect(existsSync(join(root, CERTS, 'empty.io/hosts.toml'))).toBe(true);
  });

  it('does nothing on a machine without mirrors', () => {
    clear();
  });

  it('knows the usual folders that the daemon needs no record for', () => {
    for (const folder of FOLDERS_CLEARED_ANYWAY) put(`${folder}/quay.io/hosts.toml`, ours(true));
    clear();
    for (const folder of FOLDERS_CLEARED_ANYWAY.filter((each) => !each.includes(':')))
      expect(readdirSync(join(root, folder))).toEqual([]);
    // That of a list goes as a whole.
    expect(readdirSync(join(root, 'etc/containerd'))).toEqual(['certs.d']);
  });

  it('keeps what somebody else has in the folder of a list', () => {
    const list = `${CERTS}:/etc/docker/certs.d`;
    put(`${list}/quay.io/hosts.toml`, ours(true));
    put(`${list}/ghcr.io/hosts.toml`, 'theirs\n');
    clear();
    expect(readdirSync(join(root, list))).toEqual(['ghcr.io']);
  });

  describe('and the folders that the daemon has recorded', () => {
    const RECORD = 'var/lib/stickpin/mirror-folders';

    it('restores and removes files there, also where a name has spaces', () => {
      put(RECORD, '/srv/k3s data/certs.d\n\nnot a path\n/gone/certs.d\n/opt/certs.d\n');
      put('srv/k3s data/certs.d/quay.io/hosts.toml', ours(true));
      put('opt/certs.d/quay.io/hosts.toml', ours(false));
      put('opt/certs.d/quay.io/hosts.toml.stickpin-saved', 'mine\n');
      put('opt/certs.d/ghcr.io/hosts.toml', 'theirs\n');
      clear();
      expect(readdirSync(join(root, 'srv/k3s data/certs.d'))).toEqual([]);
      expect(readdirSync(join(root, 'opt/certs.d/quay.io'))).toEqual(['hosts.toml']);
      expect(read('opt/certs.d/quay.io/hosts.toml')).toBe('mine\n');
      expect(read('opt/certs.d/ghcr.io/hosts.toml')).toBe('theirs\n');
    });

    it('leaves folders alone that it does not name', () => {
      put(RECORD, '/opt/certs.d\n');
      put('srv/certs.d/quay.io/hosts.toml', ours(true));
      clear();
      expect(existsSync(join(root, 'srv/certs.d/quay.io/hosts.toml'))).toBe(true);
    });
  });
});

describe('keep-mirrors', () => {
  const KEPT = 'var/lib/stickpin/crio/registries.conf';
  const MIRRORS = 'run/stickpin/registries.conf';
  const HOSTS = 'etc/containerd/certs.d/quay.io/hosts.toml';
  const FAILURES = 'run/stickpin/failed-starts';
  const ISSUE = 'run/stickpin/stickpin.issue';
  const AGETTY = 'run/agetty.reload';
  const OURS = '# Written by stickpin for the images of bundles\n# more\n# stickpin: {"madeDirectory":true}\n';

  interface Machine {
    /** `systemctl list-jobs` of the unit that stops. */
    readonly job?: string;
    /** `systemctl list-jobs stickpin.service`, where that is another unit. */
    readonly daemonJob?: string;
    /** The same, once the socket was told to stop. */
    readonly daemonJobThen?: string;
    /** `systemctl is-system-running`. */
    readonly system?: string;
    readonly result?: string;
    readonly exitStatus?: number;
    readonly isEnabled?: boolean;
  }

  /** Runs the script with a systemctl that answers as told. @returns what it was asked to do */
  const keep = (
    what: 'boot' | 'stopped' | 'unit',
    {
      job = '',
      daemonJob = job,
      daemonJobThen = daemonJob,
      system = 'running',
      result = 'success',
      exitStatus = 1,
      isEnabled = true,
    }: Machine,
  ) => {
    const asked = join(root, 'asked');
    rmSync(asked, { force: true });
    put(
      'bin/systemctl',
      `#!/bin/sh
case "$*" in
  *is-enabled*) exit ${isEnabled ? 0 : 1} ;;
  *is-active*) exit 0 ;;
  *list-jobs*stickpin.service)
    if grep -q 'stop stickpin-registry.socket' ${asked} 2>/dev/null; then printf '%s' '${daemonJobThen}'
    else printf '%s' '${daemonJob}'; fi ;;
  *list-jobs*) printf '%s' '${job}' ;;
  *is-system-running*) echo ${system} ;;
  *) echo "$*" >> ${asked} ;;
esac
`,
    );
    put('bin/sleep', `#!/bin/sh\necho "$1" >> ${join(root, 'slept')}\n`);
    for (const program of ['systemctl', 'sleep']) chmodSync(join(root, 'bin', program), 0o755);
    rmSync(join(root, 'slept'), { force: true });
    const script = new URL('keep-mirrors', systemd).pathname;
    const { status, stderr } = spawnSync('/bin/sh', [script, what], {
      env: {
        PATH: `${join(root, 'bin')}:${process.env.PATH}`,
        ROOT: root,
        SERVICE_RESULT: result,
        EXIT_STATUS: `${exitStatus}`,
      },
      encoding: 'utf8',
    });
    expect([status, stderr]).toEqual([0, '']);
    return existsSync(asked) ? read('asked').trim().split('\n') : [];
  };
  const mirrors = () => [
    existsSync(join(root, MIRRORS)) && read(MIRRORS) !== '',
    existsSync(join(root, HOSTS)),
    existsSync(join(root, KEPT)),
  ];
  const STAY = [true, true, true];
  const GONE = [false, false, false];
  const RELOAD = '--no-block --job-mode=ignore-dependencies reload crio.service';
  const CLOSE = '--no-block stop stickpin-registry.socket';
  const OPEN = '--no-block start stickpin-registry.socket';
  beforeEach(() => {
    for (const path of [KEPT, MIRRORS]) put(path, '[[registry]]\n');
    put(HOSTS, OURS);
  });

  it('restores the mirrors at boot, readable for everybody', () => {
    put(MIRRORS, '');
    expect(keep('boot', {})).toEqual([]);
    expect(mirrors()).toEqual(STAY);
    expect(lstatSync(join(root, MIRRORS)).mode & 0o777).toBe(0o644);
  });

  it('removes the mirrors at boot where the service is masked or disabled', () => {
    put(MIRRORS, '');
    keep('boot', { isEnabled: false });
    expect(mirrors()).toEqual(GONE);
  });

  it('leaves them in place when somebody starts a service that is disabled', () => {
    keep('boot', { isEnabled: false, job: ' 812 stickpin.service start waiting\n' });
    expect(mirrors()).toEqual(STAY);
  });

  it('leaves mirrors that are newer than their copy alone', () => {
    put(MIRRORS, '[[registry]]\n# newer\n');
    keep('boot', {});
    expect(read(MIRRORS)).toContain('newer');
  });

  it('takes them away when its unit stops with a masked service, and has CRI-O reload', () => {
    const job = ' 813 stickpin-clear-mirrors.service stop running\n';
    expect(keep('unit', { job, daemonJob: '' })).toEqual([RELOAD, CLOSE]);
    expect(mirrors()).toEqual(GONE);
  });

  it.each(['start', 'restart'])('leaves the socket open for a %s that somebody has asked for', (asked) => {
    const job = ' 813 stickpin-clear-mirrors.service stop running\n';
    const daemonJob = ` 814 stickpin.service ${asked} waiting\n`;
    expect(keep('unit', { job, daemonJob })).toEqual([RELOAD]);
    for (const _end of [1, 2, 3]) expect(keep('stopped', { daemonJob, result: 'exit-code' })).not.toContain(CLOSE);
  });

  it('closes the socket after a failed start, which is a job that still runs', () => {
    const daemonJob = ' 814 stickpin.service start running\n';
    for (const _end of [1, 2]) keep('stopped', { daemonJob, result: 'exit-code' });
    expect(keep('stopped', { daemonJob, result: 'exit-code' })).toEqual([RELOAD, CLOSE]);
  });

  it.each(['start', 'restart'])('opens the socket again for a %s that comes while it closes', (asked) => {
    const daemonJobThen = ` 814 stickpin.service ${asked} waiting\n`;
    const job = ' 813 stickpin-clear-mirrors.service stop running\n';
    expect(keep('unit', { job, daemonJob: '', daemonJobThen })).toEqual([RELOAD, CLOSE, OPEN]);
    for (const _end of [1, 2]) keep('stopped', { result: 'exit-code' });
    expect(keep('stopped', { result: 'exit-code', daemonJobThen })).toEqual([CLOSE, OPEN]);
  });

  it.each<[string, Machine]>([
    ['restarts with the service', { job: ' 813 stickpin-clear-mirrors.service restart running\n' }],
    [
      'stops as the machine goes down',
      { job: ' 813 stickpin-clear-mirrors.service stop running\n', system: 'stopping' },
    ],
  ])('leaves them in place when its unit %s', (_what, machine) => {
    expect(keep('unit', machine)).toEqual([]);
    expect(mirrors()).toEqual(STAY);
  });

  it.each<[string, Machine]>([
    ['a restart', { job: ' 812 stickpin.service restart running\n' }],
    ['a daemon that ends by itself, since its settings changed', {}],
    ['a shutdown', { job: ' 9 stickpin.service stop running\n', system: 'stopping' }],
    ['a crash', { result: 'core-dump' }],
    ['a kill by the watchdog', { result: 'watchdog' }],
  ])('keeps the mirrors over %s', (_what, machine) => {
    expect(keep('stopped', machine)).toEqual([]);
    expect(mirrors()).toEqual(STAY);
  });

  it.each(['success', 'timeout'])('removes the mirrors at a stop (%s), and reloads CRI-O', (result) => {
    expect(keep('stopped', { job: ' 812 stickpin.service stop running\n', result })).toEqual([RELOAD, CLOSE]);
    expect(mirrors()).toEqual(GONE);
  });

  it.each(['signal', 'watchdog'])('removes what login prompts show after a %s, and has them print again', (result) => {
    put(ISSUE, 'LEAVE THE STICK IN\n');
    put(AGETTY, '');
    utimesSync(join(root, AGETTY), 1, 1);
    keep('stopped', { result });
    expect(existsSync(join(root, ISSUE))).toBe(false);
    expect(statSync(join(root, AGETTY)).mtimeMs).toBeGreaterThan(1_000);
    rmSync(join(root, AGETTY));
    put(ISSUE, 'LEAVE THE STICK IN\n');
    keep('stopped', { result });
    expect([ISSUE, AGETTY].map((path) => existsSync(join(root, path)))).toEqual([false, false]);
  });

  it('leaves the text of another daemon that runs', () => {
    put(ISSUE, 'LEAVE THE STICK IN\n');
    keep('stopped', { result: 'exit-code', exitStatus: 75 });
    expect(existsSync(join(root, ISSUE))).toBe(true);
  });

  it('removes the mirrors after three failed starts in a row, and ends waiting pulls', () => {
    const crash = { result: 'exit-code' };
    expect([keep('stopped', crash), keep('stopped', crash)]).toEqual([[], []]);
    expect(mirrors()).toEqual(STAY);
    expect(keep('stopped', crash)).toEqual([RELOAD, CLOSE]);
    expect(mirrors()).toEqual(GONE);
    expect(keep('stopped', crash)).toEqual([CLOSE]);
  });

  const sleptSeconds = () =>
    existsSync(join(root, 'slept'))
      ? read('slept')
          .trim()
          .split('\n')
          .reduce((sum, seconds) => sum + Number(seconds), 0)
      : 0;

  it('waits before each start from the third failure in a row on, for less than TimeoutStopSec=', () => {
    const [, limit] = /^TimeoutStopSec=(\d+)$/m.exec(readFileSync(new URL('stickpin.service', systemd), 'utf8')) ?? [];
    const pauses = [1, 2, 3, 4].map(() => {
      keep('stopped', { result: 'exit-code' });
      return sleptSeconds();
    });
    expect(pauses).toEqual([0, 0, 20, 20]);
    expect(Number(limit)).toBeGreaterThan(25);
  });

  it.each(['restart waiting', 'start waiting'])('ends that pause for a %s that somebody asks for', (asked) => {
    for (const _end of [1, 2]) keep('stopped', { result: 'exit-code' });
    keep('stopped', { result: 'exit-code', daemonJobThen: ` 814 stickpin.service ${asked}\n` });
    expect(sleptSeconds()).toBe(2);
  });

  it('leaves them alone after starts that ended because another daemon runs', () => {
    const crash = { result: 'exit-code', exitStatus: 75 };
    for (const _end of [1, 2, 3]) expect(keep('stopped', crash)).toEqual([]);
    expect(mirrors()).toEqual(STAY);
  });

  it('removes the mirrors after one start that hung until its time limit, and ends waiting pulls', () => {
    const daemonJob = ' 814 stickpin.service start running\n';
    expect(keep('stopped', { daemonJob, result: 'timeout' })).toEqual([RELOAD, CLOSE]);
    expect(mirrors()).toEqual(GONE);
    expect(keep('stopped', { result: 'timeout' })).toEqual([CLOSE]);
  });

  it.each([
    ' 814 stickpin.service restart running\n',
    ' 814 stickpin.service restart waiting\n',
    ' 814 stickpin.service start waiting\n',
  ])('keeps the mirrors when a stop hung until its time limit, and a start follows: %s', (job) => {
    expect(keep('stopped', { job, result: 'timeout' })).toEqual([]);
    expect(mirrors()).toEqual(STAY);
  });

  it('counts only failed starts in a row', () => {
    for (const result of ['exit-code', 'signal', 'success', 'exit-code', 'signal']) keep('stopped', { result });
    expect(mirrors()).toEqual(STAY);
    rmSync(join(root, FAILURES)); // as the daemon does after a while
    keep('stopped', { result: 'signal' });
    expect(mirrors()).toEqual(STAY);
  });
});

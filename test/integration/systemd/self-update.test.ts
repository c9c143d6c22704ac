import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { have } from '../../support/requirements.ts';

const script = new URL('../../../systemd/self-update', import.meta.url).pathname;
const arch = process.arch === 'arm64' ? 'arm64' : 'x64';

/** The archives are real, with an install.sh of their own. systemctl is a double. */
describe('the update of stickpin from a release', () => {
  const base = folderForEach();
  const root = () => join(base, 'root');
  const state = (name: string) => join(root(), 'var/lib/stickpin-update', name);
  const installed = () => readFileSync(join(root(), 'usr/lib/stickpin/program'), 'utf8').trim();
  const calls = () => (existsSync(join(base, 'calls')) ? readFileSync(join(base, 'calls'), 'utf8') : '');

  function executable(path: string, text: string): void {
    mkdirSync(join(path, '..'), { recursive: true });
    writeFileSync(path, `#!/bin/sh\n${text}\n`);
    chmodSync(path, 0o755);
  }

  /** @param program how its daemon is, or that its installation breaks off */
  function archive(version: string, program: 'good' | 'bad' | 'strict' | 'hung' | 'refused'): void {
    const name = `stickpin-${version}-linux-${arch}`;
    const folder = join(base, 'made', name);
    executable(
      join(folder, 'install.sh'),
      `printf '${version} half' >${root()}/usr/lib/stickpin/program
[ ! -e ${base}/kill-install ] || { rm ${base}/kill-install; kill -9 $PPID $$; }
[ ${program} != refused ] || exit 1
echo '${version} ${program}' >${root()}/usr/lib/stickpin/program`,
    );
    execFileSync('tar', ['-czf', join(base, 'attachments', `${name}.tar.gz`), '-C', join(base, 'made'), name]);
  }

  beforeEach(() => {
    for (const folder of ['attachments', 'made', 'root/usr/lib/stickpin', 'root/var/lib/stickpin'])
      mkdirSync(join(base, folder), { recursive: true });
    const lib = join(root(), 'usr/lib/stickpin');
    writeFileSync(join(lib, 'format'), 'archive\n');
    writeFileSync(join(lib, 'program'), '1.0.0 good\n');
    writeFileSync(join(lib, 'files'), 'tree - lib /usr/lib/stickpin\nfile 0755 stickpin /usr/bin/stickpin\n');
    executable(join(lib, 'setup'), 'exit 0');
    const is = (word: string) => `grep -q ' ${word}$' ${lib}/program`;
    executable(
      join(root(), 'usr/bin/stickpin'),
      `echo "stickpin $*" >>${base}/calls
case $1 in
  --version) ! ${is('hung')} || exec sleep 30; cut -d' ' -f1 ${lib}/program ;;
  status) ! ${is('bad')} ;;
  config) ! ${is('strict')} ;;
esac`,
    );
    executable(
      join(base, 'bin/systemctl'),
      `case "$*" in
  *'is-active stickpin.service') ${is('half')} && exit 1; exit 0 ;;
  *MainPID*) cat ${base}/pid 2>/dev/null || echo 7 ;;
  'restart stickpin.service') echo restarted >>${base}/calls ;;
  'start stickpin-self-update-run.service') [ ! -s ${state('step')} ] || exec /bin/sh ${state('self-update')} run ;;
esac`,
    );
    archive('2.0.0', 'good');
  });

  function run(version = '2.0.0', env: Readonly<Record<string, string>> = {}, command = [script, 'start']) {
    const { stderr, status } = spawnSync('/bin/sh', command, {
      encoding: 'utf8',
      env: {
        PATH: `${join(base, 'bin')}:${process.env.PATH}`,
        ROOT: root(),
        POLL_SECONDS: '0.05',
        HEALTH_SECONDS: '5',
        STEADY_SECONDS: '1',
        STICKPIN_DIGEST: `sha256:${version}`,
        STICKPIN_BUNDLE: `stickpin@${version}`,
        STICKPIN_NAME: 'stickpin',
        STICKPIN_VERSION: version,
        STICKPIN_ATTACHMENTS: join(base, 'attachments'),
        ...env,
      },
    });
    return { stderr, status };
  }

  it('installs the package for this machine, and proves the release', () => {
    expect(run()).toMatchObject({ status: 0, stderr: expect.stringContaining('installed and healthy') });
    expect(installed()).toBe('2.0.0 good');
    expect(calls()).toContain('stickpin prove sha256:2.0.0');
    expect(existsSync(state('step'))).toBe(false);
  });

  it.each(['bad', 'refused', 'strict'] as const)(
    'puts the earlier one back, once, when the new one is %s',
    (program) => {
      archive('2.0.0', program);
      const first = run();
      expect([first.status, installed()]).toEqual([1, '1.0.0 good']);
      expect(first.stderr).toContain(
        'stickpin@2.0.0 was not installed, ready and healthy in time: stickpin 1.0.0 is back',
      );
      archive('2.0.0', 'good');
      const again = run();
      expect([again.status, installed()]).toEqual([1, '1.0.0 good']);
      expect(again.stderr).toContain(`To try it again: rm ${state('result')}`);
      expect(calls()).not.toContain('prove');
      archive('2.1.0', 'good');
      rmSync(join(base, 'attachments', `stickpin-2.0.0-linux-${arch}.tar.gz`));
      expect([run('2.1.0').status, installed()]).toEqual([0, '2.1.0 good']);
    },
  );

  it('puts the earlier one back when the package is of another version than its release', () => {
    expect([run('3.0.0').status, installed()]).toEqual([1, '1.0.0 good']);
  });

  it('goes on after a kill within the installation, and proves the release', () => {
    writeFileSync(join(base, 'kill-install'), '');
    const { status, stderr } = run();
    expect([status, installed()]).toEqual([0, '2.0.0 good']);
    expect(stderr.split('Installing stickpin@2.0.0')).toHaveLength(3);
    expect(calls()).toContain('stickpin prove sha256:2.0.0');
  });

  /** Everything is kept, and the runner was cut at this step. */
  function cutAt(step: string, program: string): void {
    const systemctl = readFileSync(join(base, 'bin/systemctl'), 'utf8');
    executable(join(base, 'bin/systemctl'), 'exit 0');
    expect(run().stderr).toContain('did not end');
    writeFileSync(join(base, 'bin/systemctl'), systemctl);
    writeFileSync(state('step'), `${step}\n`);
    if (!step.startsWith('install')) writeFileSync(join(root(), 'usr/lib/stickpin/program'), `2.0.0 ${program}\n`);
  }
  const boot = () => run('2.0.0', {}, [state('self-update'), 'run']);

  it.each([
    ['install-1', '2.0.0 good', 'good'],
    ['install-2', '2.0.0 good', 'good'],
    ['check-1', '2.0.0 good', 'good'],
    ['check-3', '2.0.0 good', 'good'],
    ['check-1', '1.0.0 good', 'bad'],
    ['return', '1.0.0 good', 'bad'],
  ] as const)('after a cut at step %s a boot ends with %s', (step, after, program) => {
    archive('2.0.0', program);
    cutAt(step, program);
    boot();
    expect([installed(), existsSync(state('step'))]).toEqual([after, false]);
  });

  it('puts the earlier one back when the new one takes the node down at each check', () => {
    cutAt('check-1', 'good');
    executable(join(base, 'bin/timeout'), `grep -q 2.0.0 ${root()}/usr/lib/stickpin/program || exit 0\nkill -9 $PPID`);
    const boots = [boot(), boot(), boot()].map(({ status }) => status);
    expect([boots, installed()]).toEqual([[null, null, null], '2.0.0 good']);
    boot();
    expect([installed(), existsSync(state('step'))]).toEqual(['1.0.0 good', false]);
  });

  it('keeps nothing anew while an update has not ended', () => {
    cutAt('install-2', 'good');
    writeFileSync(join(root(), 'usr/lib/stickpin/program'), '2.0.0 half\n');
    executable(join(base, 'bin/systemctl'), 'exit 0');
    expect(run().stderr).toContain('The update that was begun did not end');
    writeFileSync(state('step'), 'return\n');
    boot();
    expect(installed()).toBe('1.0.0 good');
  });

  it('tries again later when the earlier one could not be put back', () => {
    cutAt('return', 'bad');
    executable(join(base, 'bin/tar'), 'echo No space left >&2\nexit 2');
    expect(run('2.0.0', { RETRY_SECONDS: '0' }, [state('self-update'), 'run'])).toMatchObject({ status: 1 });
    expect(readFileSync(state('step'), 'utf8')).toBe('return\n');
    rmSync(join(base, 'bin/tar'));
    boot();
    expect([installed(), existsSync(state('step'))]).toEqual(['1.0.0 good', false]);
  });

  it('puts the earlier one back when the installation took the program away', () => {
    const name = `stickpin-2.0.0-linux-${arch}`;
    executable(join(base, 'made', name, 'install.sh'), `rm -r ${root()}/usr/lib/stickpin\nexit 1`);
    execFileSync('tar', ['-czf', join(base, 'attachments', `${name}.tar.gz`), '-C', join(base, 'made'), name]);
    expect(run().stderr).toContain('stickpin 1.0.0 is back');
    expect(installed()).toBe('1.0.0 good');
  });

  it('puts the earlier one back when the new one does not name its version', () => {
    executable(join(base, 'bin/timeout'), 'shift; exec /usr/bin/timeout 1 "$@"');
    archive('2.0.0', 'hung');
    const from = Date.now();
    expect([run().status, installed()]).toEqual([1, '1.0.0 good']);
    expect(Date.now() - from).toBeLessThan(20_000);
  });

  it('installs nothing where no copy of the state can be kept', () => {
    writeFileSync(join(root(), 'var/lib/stickpin/state.db'), 'x');
    executable(
      join(base, 'bin/tar'),
      `case $* in *state.tar*) echo No space left >&2 && exit 2 ;; esac; exec /bin/tar "$@"`,
    );
    expect(run()).toEqual({ status: 1, stderr: 'No space left\n' });
    expect([installed(), existsSync(state('step'))]).toEqual(['1.0.0 good', false]);
    expect(existsSync(state(`stickpin-2.0.0-linux-${arch}.tar.gz`))).toBe(false);
  });

  it('keeps a copy of the state', () => {
    for (const name of ['state.db', 'state.db-wal', 'state.json', 'lock'])
      writeFileSync(join(root(), 'var/lib/stickpin', name), 'x');
    expect(run().status).toBe(0);
    const names = execFileSync('tar', ['-tf', state('state.tar')], { encoding: 'utf8' })
      .trim()
      .split('\n')
      .sort();
    expect(names).toEqual(['state.db', 'state.db-wal', 'state.json']);
  });

  it('installs nothing where the settings are wrong already', () => {
    writeFileSync(join(root(), 'usr/lib/stickpin/program'), '1.0.0 strict\n');
    expect(run()).toEqual({ status: 1, stderr: expect.stringContaining('The settings are wrong') });
    expect([installed(), existsSync(state('step'))]).toEqual(['1.0.0 strict', false]);
  });

  it('checks for as long as it should when the clock is set right meanwhile', () => {
    executable(join(base, 'bin/date'), `echo $(($(cat ${base}/now 2>/dev/null || echo 1) + 1000)) | tee ${base}/now`);
    expect([run().status, installed()]).toEqual([0, '2.0.0 good']);
  });

  it('takes a node that answers slowly for no fault', () => {
    executable(join(base, 'bin/timeout'), 'sleep 1; shift; exec "$@"');
    expect([run().status, installed()]).toEqual([0, '2.0.0 good']);
  });

  it('takes a socket that is masked for no fault', () => {
    const systemctl = join(base, 'bin/systemctl');
    const masked = `case "$*" in 'start stickpin-registry.socket'*) exit 1 ;; esac`;
    executable(systemctl, `${masked}\n${readFileSync(systemctl, 'utf8')}`);
    expect([run().status, installed()]).toEqual([0, '2.0.0 good']);
  });

  it('takes a first start that systemd ends for no fault, since it starts again', () => {
    const systemctl = join(base, 'bin/systemctl');
    const late = `case "$*" in 'restart stickpin.service') exit 1 ;; esac`;
    executable(systemctl, `${late}\n${readFileSync(systemctl, 'utf8')}`);
    expect([run().status, installed()]).toEqual([0, '2.0.0 good']);
  });

  it.each([
    ['is started again where the package left the earlier one running, as a disabled one', '', true],
    ['is not started twice', `echo 8 >${base}/pid;`, false],
  ])('the new daemon %s', (_, restart, isRestarted) => {
    bringDeb();
    executable(join(base, 'bin/dpkg'), `${restart} echo '2.0.0 good' >${root()}/usr/lib/stickpin/program`);
    expect([run().status, installed()]).toEqual([0, '2.0.0 good']);
    expect(calls().includes('restarted')).toBe(isRestarted);
  });

  it('installs where the lock that is held belongs to a file of another filesystem', () => {
    const lock = join(root(), 'var/lib/dpkg/lock');
    bringDeb();
    executable(join(base, 'bin/dpkg'), `echo '2.0.0 good' >${root()}/usr/lib/stickpin/program`);
    const command = `exec flock ${lock} /bin/sh ${script} start`;
    const { status, stderr } = run('2.0.0', {}, ['-c', command]);
    expect([status, installed()]).toEqual([0, '2.0.0 good']);
    expect(stderr).toContain('Another program holds the lock');
  });

  /** The program is installed as a .deb, and a newer one is there. */
  function bringDeb(): void {
    const lock = join(root(), 'var/lib/dpkg/lock');
    mkdirSync(join(lock, '..'), { recursive: true });
    const deb = `stickpin_2.0.0_${{ x64: 'amd64', arm64: 'arm64' }[arch]}.deb`;
    for (const path of [lock, join(base, 'attachments', deb)]) writeFileSync(path, '');
    writeFileSync(join(root(), 'usr/lib/stickpin/format'), 'deb\n');
  }

  it.each([
    ['deb', 'dpkg', `stickpin_2.0.0_${{ x64: 'amd64', arm64: 'arm64' }[arch]}.deb`],
    ['rpm', 'rpm', `stickpin-2.0.0-1.${{ x64: 'x86_64', arm64: 'aarch64' }[arch]}.rpm`],
  ])('waits for another program that holds the lock of %s packages, and says so', async (format, manager, name) => {
    const lock = join(base, 'lock');
    mkdirSync(join(root(), 'var/lib/dpkg'), { recursive: true });
    for (const path of [lock, join(base, 'attachments', name)]) writeFileSync(path, '');
    linkSync(lock, join(root(), 'var/lib/dpkg/lock'));
    writeFileSync(join(root(), 'usr/lib/stickpin/format'), `${format}\n`);
    executable(
      join(base, 'bin', manager),
      `case $1 in --eval) echo /var/lib/dpkg/lock && exit ;; esac
flock --nonblock ${lock} true || exit 2
case $* in *${name}) echo '2.0.0 good' >${root()}/usr/lib/stickpin/program ;; esac`,
    );
    const pause = join(base, 'pause');
    executable(join(base, 'bin/sleep'), `touch ${pause}\nexec /bin/sleep "$@"`);
    const hold = `echo held; until [ -e ${pause} ]; do sleep 0.1; done`;
    const holder = spawn('flock', [lock, 'sh', '-c', hold], { stdio: ['ignore', 'pipe', 'inherit'] });
    await once(holder.stdout, 'data');
    const { status, stderr } = run();
    expect([status, installed()]).toEqual([0, '2.0.0 good']);
    expect(stderr.split(`Another program holds the lock of ${format} packages`)).toHaveLength(2);
  });

  it.each(['', 'stickpin-9-linux-x64.tar.gz stickpin-9-linux-arm64.tar.gz'])(
    'installs nothing of a release that brings not exactly one package for this machine: %j',
    (names) => {
      if (names === '') rmSync(join(base, 'attachments', `stickpin-2.0.0-linux-${arch}.tar.gz`));
      for (const name of names.split(' ').filter(Boolean)) writeFileSync(join(base, 'attachments', name), '');
      const { status, stderr } = run();
      expect([status, installed()]).toEqual([1, '1.0.0 good']);
      expect(stderr).toContain('and this node needs one: it is installed as archive');
    },
  );

  it('installs nothing that VERIFY_PACKAGE refuses', () => {
    const { status, stderr } = run('2.0.0', { VERIFY_PACKAGE: 'test -d' });
    expect([status, installed()]).toEqual([1, '1.0.0 good']);
    expect(stderr).toContain("'test -d' refuses the package: nothing was installed");
  });

  it.runIf(have('root'))('installs nothing where the program is read-only, as in an image of a host', () => {
    const lib = join(root(), 'usr/lib/stickpin');
    const mount = `mount --bind ${lib} ${lib} && mount -o remount,bind,ro ${lib} && exec /bin/sh ${script} start`;
    const { status, stderr } = run('2.0.0', {}, ['-c', `exec unshare --mount /bin/sh -c '${mount}'`]);
    expect([status, stderr]).toEqual([1, expect.stringContaining('stickpin is updated with that image')]);
    expect(existsSync(state('step'))).toBe(false);
  });

  it('only proves a release that is installed already', () => {
    writeFileSync(join(root(), 'usr/lib/stickpin/program'), '2.0.0 good\n');
    expect(run().status).toBe(0);
    expect(existsSync(state('earlier'))).toBe(false);
  });
});

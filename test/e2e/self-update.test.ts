import { join } from 'node:path';
import { beforeAll, expect, inject, test } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { makeSampleBundle, sampleKey } from '../support/bundles/sample-bundle.ts';
import { folderForAll } from '../support/files/temporary-folder.ts';
import { laterVersion } from '../support/packages/make-packages.ts';
import { describeMachine } from './machine/describe-machine.ts';
import { startInstalled } from './machine/product/install-package.ts';
import { stickpinOn } from './machine/product/node.ts';
import { bringUpdate, phaseOfUpdate, selfUpdateSettings, UPDATE_STATE } from './machine/product/self-update.ts';
import { makeStick } from './machine/qemu/stick.ts';

const OLD = packageJson.version;
const NEW = laterVersion(100);
const BROKEN = laterVersion(101);
const LIB = '/usr/lib/stickpin';

/** Refuses no package, and holds the update while the file is there, also after a boot. */
const VERIFY = `#!/bin/sh
touch /run/verify-is-reached
while [ -e /root/hold ]; do sleep 1; done
`;
/** Holds the lock of dpkg as apt does, until it is stopped. F_SETLK is 6, F_WRLCK is 1. */
const LOCK = `open my $lock, "+<", "/var/lib/dpkg/lock" or die;
my $flock = pack("s s x4 q q i x4", 1, 0, 0, 0, 0);
fcntl($lock, 6, $flock) or die;
sleep 3600;
`;
/** Stops dpkg once it has put some of its new files in place, and writes how many it had to. */
const FREEZE = `most=0
while :; do
  now=$(find ${LIB} -name '*.dpkg-new' | wc -l)
  if [ $((most - now)) -gt 20 ]; then kill -STOP $(pidof dpkg) && echo "$now of $most" >/run/frozen && exit; fi
  [ $now -lt $most ] || most=$now
done
`;
/** Unpacks half of what comes back, once, and goes no further. */
const TAR = `#!/bin/sh
if [ "$1" = -xpf ] && [ -e /root/hold ]; then
  rm /root/hold
  head -c $(($(stat -c %s "$2") / 2)) "$2" | /usr/bin/tar -xpf - -C /
  sync
  touch /run/tar-is-held
  sleep 3600
fi
exec /usr/bin/tar "$@"
`;

/**
 * The steps of docs/self-update.md with the power cut in each, on a node with containerd and a
 * release that is pinned. The stick is out by then. Tests lean on the ones before.
 */
describeMachine('an update of stickpin whose power is cut', 'installed', (machine) => {
  const node = stickpinOn(machine);
  const key = sampleKey('factory-2026');
  const directory = folderForAll();
  const steps: string[] = [];

  const note = (what: string) => {
    steps.push(`${(performance.now() / 1000).toFixed(0)} s: ${what}`);
    console.log(steps.at(-1));
  };
  const step = (name: string) => machine().untilOutput(`step ${name}`, `grep -x '${name}' ${UPDATE_STATE}/step`);
  /** Exactly one daemon runs, of this version, with its state, and its release is pinned. */
  const expectOneDaemon = async (version: string) => {
    await node.until(
      `the release to be there and pinned by ${version}`,
      ({ runtime, bundles }) =>
        runtime.reachable &&
        bundles.some(
          ({ name, phase, images }) => name === 'ocp' && phase === 'activated' && images.pinned === images.total,
        ),
    );
    expect(await machine().output('stickpin --version')).toBe(version);
    const main = 'systemctl show --property=MainPID --value stickpin';
    expect(await machine().output(`test "$(pgrep --full ${LIB}/dist/[m]ain.js)" = "$(${main})" && echo one`)).toBe(
      'one',
    );
  };
  const bring = (version: string, sequence: number, daemon?: string) =>
    bringUpdate(machine, {
      like: inject('deb'),
      directory,
      key,
      version,
      sequence,
      ...(daemon !== undefined && { daemon }),
    });

  beforeAll(async () => {
    await machine().output('systemctl enable --now containerd.service');
    await machine().putFile('/usr/local/bin/verify', VERIFY, 0o755);
    await machine().putFile('/usr/local/bin/tar', TAR, 0o755);
    await machine().putFile('/root/lock.pl', LOCK);
    await machine().putFile('/root/freeze', FREEZE);
    await machine().putFile(
      '/etc/systemd/system/stickpin-self-update.service.d/verify.conf',
      '[Service]\nEnvironment=VERIFY_PACKAGE=/usr/local/bin/verify\n',
    );
    await machine().output('systemctl daemon-reload');
    await startInstalled(machine(), {
      keys: { [key.name]: key.publicPem },
      configuration: selfUpdateSettings(key.publicPem),
    });
    await makeSampleBundle({ dir: join(directory, 'ocp/stickpin'), keys: [key] });
    const stick = await makeStick({ image: join(directory, 'ocp.img'), folder: join(directory, 'ocp') });
    const plugged = await machine().plug(stick);
    await node.untilPinned('activated', 2);
    await plugged.unplug();
  });

  test('within choose and keep: nothing was installed, and the boot begins the update again', async () => {
    await expectOneDaemon(OLD);
    await machine().putFile('/root/hold', '');
    await bring(NEW, 2);
    await machine().untilOutput('the package to be kept', 'test -e /run/verify-is-reached');
    note('cut in keep');
    await machine().powerCut(false);
    note('agent is back');
    await machine().untilOutput('the package to be kept again', 'test -e /run/verify-is-reached');
    await expectOneDaemon(OLD);
    await machine().output(`test ! -e ${UPDATE_STATE}/step`);
  });

  test('while another program has the lock of dpkg the update waits, and says so', async () => {
    await machine().output('systemd-run --unit=lock perl /root/lock.pl && rm /root/hold');
    await machine().untilOutput(
      'the line about the lock',
      `journalctl --boot --unit=stickpin-self-update-run | grep 'Another program holds the lock of deb packages'`,
    );
    await step('install-2');
    await expectOneDaemon(OLD);
  });

  test('within install: the boot installs it again, whatever dpkg had put in place', async () => {
    await machine().output('systemd-run --unit=freeze /bin/sh /root/freeze && systemctl stop lock');
    note(`cut in install, to be renamed: ${await machine().untilOutput('dpkg to be stopped', 'cat /run/frozen')}`);
    await machine().output('sync');
    await machine().powerCut(false);
    note('agent is back');
    await step('check-2');
    await expectOneDaemon(NEW);
    expect(await machine().output('dpkg --audit; dpkg-query --show stickpin')).toBe(`stickpin\t${NEW}`);
  });

  test('within check: the boot checks again, and the release is proven', async () => {
    await step('check-2');
    note('cut in check');
    await machine().powerCut(false);
    note('agent is back');
    await node.until('the update to be proven', (report) => phaseOfUpdate(report, NEW) === 'proven');
    note('proven');
    expect(await machine().output(`cut -d' ' -f1 ${UPDATE_STATE}/result; ls ${UPDATE_STATE}`)).toMatch(
      /^ok\n(?!.*\bstep\b)/s,
    );
    await expectOneDaemon(NEW);
  });

  test('within return, half of the earlier files in place: the boot puts them all back', async () => {
    await machine().putFile('/root/hold', '');
    await machine().output('sed -i /while/d /usr/local/bin/verify && sync');
    await bring(BROKEN, 3, 'process.exit(1);\n');
    await machine().untilOutput('the return to be held', 'test -e /run/tar-is-held');
    await step('return');
    note('cut in return');
    await machine().powerCut();
    note('booted');
    await machine().untilOutput('the earlier stickpin to be back', `grep ^failed ${UPDATE_STATE}/result`);
    note('taken back');
    await expectOneDaemon(NEW);
    await expect.poll(node.statusText).toMatch(/The hook activated failed: .* stickpin 0\.1\.101 activated/);
    await machine().output(`test ! -e ${UPDATE_STATE}/step`);
  });
});

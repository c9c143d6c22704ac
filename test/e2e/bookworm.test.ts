import { readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { beforeAll, expect, inject, test } from 'vitest';
import { sampleImage, writeOciLayout } from '../support/bundles/sample-image.ts';
import { commandsOf } from '../support/docs/marked-blocks.ts';
import { runBlocks, stickpinOnPath } from '../support/docs/run-blocks.ts';
import { folderForAll } from '../support/files/temporary-folder.ts';
import { laterVersion, makePackage, remadeDeb } from '../support/packages/make-packages.ts';
import { describeMachine } from './machine/describe-machine.ts';
import { installCriPuller, pullAll } from './machine/product/cri-pull.ts';
import { stickpinOn } from './machine/product/node.ts';
import { packagesOn } from './machine/product/packages.ts';
import { phaseOfUpdate, selfUpdateSettings } from './machine/product/self-update.ts';
import { makeStick } from './machine/qemu/stick.ts';

/** The version of the update by hand, and of the one from a stick. */
const NEWER = laterVersion(99);
const NEWEST = laterVersion(100);
const OPERATE = 'docs/operate.md';
const UNIT = /\.(service|socket)$/;

/**
 * The oldest Debian that docs/install.md names, with glibc 2.36, Linux 6.1 and systemd 252, and the
 * containerd of trixie: its own is 1.6, which can't pin. The first step follows docs/operate.md
 * from making a key to the end. A reboot after each step. Tests lean on the ones before.
 */
describeMachine('a node with Debian bookworm', { boot: 'bookworm' }, (machine) => {
  const node = stickpinOn(machine);
  const { folder, bring, run, expectNothingLeft, expectPull } = packagesOn(machine, 'containerd.service');
  const directory = folderForAll();

  // In the factory, with the commands of the page.
  beforeAll(async () => {
    const layout = join(directory, 'layout');
    writeOciLayout(layout, [{ image: sampleImage({ seed: 'etcd', architecture: 'amd64' }), names: ['etcd'] }]);
    await writeFile(join(directory, 'images.txt'), `etcd=quay.example.com/coreos/etcd:3.5.9=oci:${layout}:etcd\n`);
    const programs = await stickpinOnPath(join(directory, 'bin'));
    await runBlocks([commandsOf(OPERATE, 'key'), commandsOf(OPERATE, 'stick')], { directory, programs });
  });

  const isPinned = () => node.untilPinned('activated', 1);

  test('by docs/operate.md from a blank machine: installed, no fault, and a stick is activated', async () => {
    await machine().output('systemctl enable --now containerd.service');
    await bring(inject('deb'));
    await bring(join(directory, 'factory-2026.pub'));
    await machine().until('the page to end without a fault', async () => (await run('node', OPERATE)) !== '');
    await expect.poll(() => run('containerd', 'README.md')).toContain('IDLE: No bundle yet. Waiting for a stick.');
    const stick = await makeStick({ image: join(directory, 'stick.img'), folder: join(directory, 'stick') });
    const plugged = await machine().plug(stick);
    const { runtime } = await isPinned();
    expect(runtime.name).toMatch(/^containerd 1\.7\./);
    await expect
      .poll(() => run('look', OPERATE))
      .toMatch(
        /DONE: ocp 4\.13\.7 is installed\. Remove the stick\. It is activated: 1 image present and pinned\.[\s\S]*^ocp@4\.13\.7 +activated/m,
      );
    await plugged.unplug();
  });

  test('systemd 252 knows all that is in the units', async () => {
    const units = '/usr/lib/systemd/system';
    const shipped = readdirSync('systemd').filter((name) => UNIT.test(name));
    expect(shipped.length).toBeGreaterThan(8);
    const installed = await machine().output(`cd ${units} && ls stickpin*`);
    expect(installed.split('\n')).toEqual(expect.arrayContaining(shipped));
    for (const unit of shipped) {
      const { exitCode, stderr } = await machine().run(`systemd-analyze verify --man=no ${units}/${unit}`);
      expect(`${exitCode} ${stderr}`, unit).toBe('0 ');
    }
  });

  test('after a reboot everything is as it was, also after the update to a newer .deb', async () => {
    await machine().reboot();
    await isPinned();
    const newer = await makePackage('deb', directory, NEWER);
    await bring(newer);
    await machine().output(`dpkg --install ${folder}/${basename(newer)}`);
    await isPinned();
    expect(await machine().output('dpkg --status stickpin')).toContain(`\nVersion: ${NEWER}\n`);
    expect(await machine().output('systemctl show --property=NRestarts --value stickpin')).toBe('0');
    await machine().reboot();
    await isPinned();
    await expect.poll(node.statusText).toMatch(/^IDLE: ocp 4\.13\.7 activated/);
  });

  // systemd 252 would restart a service that fails every RestartSec= for ever.
  test('with a wrong key at a boot it stays up, answers pulls by tag, and goes on once the key is right', async () => {
    await machine().putFile('/etc/stickpin/stickpin.toml', '[preload]\nparalel = 3\n');
    await machine().reboot();
    await expect.poll(node.statusText).toMatch(/^CALL SUPPORT \(C-05\): .*preload\.paralel is not a setting/);
    const state = 'systemctl show --property=SubState,NRestarts --value stickpin';
    expect(await machine().output(state)).toBe('0\nrunning');
    expect(await machine().output('systemctl --version')).toMatch(/^systemd 252 /);
    expect(await machine().output('ls /sys/class/net')).toBe('lo');
    const pull = await installCriPuller(machine(), '/run/containerd/containerd.sock');
    // What a pod with imagePullPolicy Always asks for.
    await pullAll(machine(), pull, ['quay.example.com/coreos/etcd:3.5.9']);
    await machine().output('rm /etc/stickpin/stickpin.toml');
    await expect.poll(node.statusText).toMatch(/^IDLE: ocp 4\.13\.7 activated/);
    await isPinned();
    expect(await machine().output('systemctl show --property=NRestarts --value stickpin')).toBe('0');
  });

  test('a stick brings a newer stickpin, and the node runs it after a boot', async () => {
    const settings = selfUpdateSettings(readFileSync(join(directory, 'factory-2026.pub'), 'utf8'));
    await machine().putFile('/etc/stickpin/stickpin.toml.d/update.toml', settings);
    await machine().putFile(
      '/etc/systemd/system/stickpin-self-update.service.d/soon.conf',
      '[Service]\nEnvironment=HEALTH_SECONDS=240\n',
    );
    await machine().output('systemctl daemon-reload && systemctl restart stickpin');
    const plug = async (version: string, sequence: number, deb: string) => {
      const folder = join(directory, `update-${sequence}`);
      const create = `stickpin bundle create --name stickpin --version ${version} --arch amd64 --sequence ${sequence} --key factory-2026.key --attach ${deb} --out ${folder}/stickpin/stickpin-${version}`;
      await runBlocks([create], { directory, programs: join(directory, 'bin') });
      const stick = await makeStick({ image: `${folder}.img`, folder });
      return machine().plug(stick);
    };
    const installed = () => machine().output('dpkg-query --show stickpin; stickpin --version');

    const { path } = await remadeDeb(inject('deb'), directory, NEWEST);
    const good = await plug(NEWEST, 12, path);
    await node.until('the newer stickpin to be proven', (report) => phaseOfUpdate(report, NEWEST) === 'proven');
    expect(await installed()).toBe(`stickpin\t${NEWEST}\n${NEWEST}`);
    await good.unplug();

    await machine().reboot();
    await isPinned();
    expect(await machine().output('stickpin --version')).toBe(NEWEST);
  });

  test('the .deb is removed: containerd starts and pulls without it, also after a reboot', async () => {
    await run('deb-remove');
    await expectNothingLeft();
    expect(await machine().output('ls -A /etc/containerd/certs.d')).toBe('');
    await machine().reboot();
    await expectNothingLeft();
    await expectPull();
    await machine().output('test -s /var/lib/stickpin/state.db && test -s /etc/stickpin/keys.d/factory-2026.pub');
  });
});

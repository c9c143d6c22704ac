import { readFile, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { hexOf } from '../../src/domain/model/digest.ts';
import type { StatusReport } from '../../src/domain/report/status-schema.ts';
import { makeSampleBundle, type SampleBundle, sampleKey } from '../support/bundles/sample-bundle.ts';
import { blocksBelow } from '../support/docs/run-blocks.ts';
import { folderForAll } from '../support/files/temporary-folder.ts';
import { describeMachine } from './machine/describe-machine.ts';
import { type CriPuller, installCriPuller, pullAll } from './machine/product/cri-pull.ts';
import { installCopied } from './machine/product/install-package.ts';
import { stickpinOn } from './machine/product/node.ts';
import { makeStick, type Stick } from './machine/qemu/stick.ts';
import type { PluggedStick } from './machine/qemu/usb.ts';

/** Where containerd keeps the first layer of a bundle. */
function blobPath({ contents: { layers } }: SampleBundle): string {
  const [layer] = layers;
  if (layer === undefined) throw new Error('the sample bundle has no layer');
  return `/var/lib/containerd/io.containerd.content.v1.content/blobs/sha256/${hexOf(layer.digest)}`;
}

/**
 * The whole way on a real machine with real containerd. The stick is there before the daemon starts
 * for the first time.
 */
describeMachine('a node with containerd', 'booted', (machine) => {
  const node = stickpinOn(machine);
  const key = sampleKey('factory-2026', 'ecdsa-p256');
  const directory = folderForAll();
  let bundle: SampleBundle;
  let stick: Stick;
  let first: PluggedStick;
  let pull: CriPuller;

  beforeAll(async () => {
    bundle = await makeSampleBundle({ dir: join(directory, 'stick/stickpin'), keys: [key] });
  });

  // The daemon's own test of pulls takes a pin label away for a moment.
  const isPinned = () => node.untilPinned('activated', 2, bundle.bundleId);

  test('a stick plugged in before the daemon started is found, on a bare disk and without a key at first', async () => {
    await machine().output('systemctl enable --now containerd.service');
    stick = await makeStick({
      image: join(directory, 'stick.img'),
      folder: join(directory, 'stick'),
      filesystem: 'ext4',
      table: 'none',
    });
    first = await machine().plug(stick);
    await installCopied(machine(), {});
    const refused = /: Rejected bundle on the stick: .*\/etc\/stickpin\/keys\.d/;
    const isRefused = ({ rejected, status, runtime }: StatusReport) =>
      rejected.length > 0 && refused.test(status) && runtime.name?.startsWith('containerd ') === true;
    await node.until('the rejection', isRefused);
  });

  test('it has a separate share of the processors', async () => {
    const weight = '/sys/fs/cgroup/system.slice/stickpin.service/cpu.weight';
    expect(await machine().output(`cat ${weight}`)).toBe('400');
  });

  test('with its key installed it is preloaded, pinned by label and activated automatically', async () => {
    await machine().putFile('/etc/stickpin/keys.d/factory-2026.pub', key.publicPem);
    await isPinned();
    for (const { reference, tags } of bundle.contents.images) {
      const list = `ctr --namespace k8s.io images ls "name==${reference}"`;
      await machine().untilOutput('the pin label', `${list} | grep --quiet io.cri-containerd.pinned=pinned`);
      for (const tag of tags) {
        await expect.poll(() => machine().output('ctr --namespace k8s.io images ls -q')).toContain(tag);
      }
    }
    await machine().untilOutput('the mirrors', 'grep --quiet stickpin /etc/containerd/certs.d/*/hosts.toml');
  });

  test('without its stick and a network its images are pulled again, also after a power cut that damaged one', async () => {
    await first.unplug();
    pull = await installCriPuller(machine(), '/run/containerd/containerd.sock');
    const names = bundle.contents.images.flatMap(({ reference, tags }) => [reference, ...tags]);
    const pulls = async () => {
      expect(await machine().output('ls /sys/class/net')).toBe('lo');
      await pullAll(machine(), pull, names);
      await arePullsAnswered();
      await isPinned();
    };
    await pulls();
    const token = await machine().output('cat /var/lib/stickpin/registry-token');
    expect(await machine().output('stat -c %a /var/lib/stickpin/registry-token')).toBe('600');
    // Content that was not on the disk yet; the runtime lists its image all the same.
    const [layer] = bundle.contents.layers;
    if (layer === undefined) throw new Error('the sample bundle has no layer');
    const blob = blobPath(bundle);
    await machine().output(`truncate --size=100 ${blob} && sync ${blob}`);
    await machine().powerCut();
    // Before the daemon has written anything: it waits for containerd.
    expect(await machine().output('systemctl show -P Result stickpin-clear-mirrors.service')).toBe('success');
    expect(await machine().output('cat /etc/containerd/certs.d/quay.example.com/hosts.toml')).toContain(token);
    const isDamaged = ({ bundles: [entry] }: StatusReport) => entry?.degraded?.code === 'engine/image-damaged';
    await node.until('the damage to be found', isDamaged);
    first = await machine().plug(stick);
    await node.until(
      'the image to be healed',
      ({ bundles: [entry], operation }) =>
        operation === 'idle' && entry?.degraded === undefined && entry?.images.pinned === 2,
    );
    expect(await machine().output(`stat -c %s ${blob}`)).toBe(String(layer.sizeBytes));
    await first.unplug();
    await pulls();
    expect(await machine().output('cat /etc/containerd/certs.d/quay.example.com/hosts.toml')).toContain(token);
  });

  test('with a wrong key at a boot it stays up, answers pulls, adopts nothing, and goes on once it is right', async () => {
    const names = bundle.contents.images.flatMap(({ reference, tags }) => [reference, ...tags]);
    await machine().putFile('/etc/stickpin/stickpin.toml', '[preload]\nparalel = 3\n');
    await machine().powerCut();
    await expect.poll(node.statusText).toMatch(/^CALL SUPPORT \(C-05\): .*preload\.paralel is not a setting/);
    expect(await machine().output('systemctl show --property=NRestarts --value stickpin')).toBe('0');
    await pullAll(machine(), pull, names);
    first = await machine().plug(stick);
    expect(await machine().output('ps --no-headers -o comm -p $(systemctl show -P MainPID stickpin)')).toBe('stickpin');
    const refused = await machine().run('stickpin unpin --force ocp@4.13.7');
    expect(refused).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('settings are wrong') });
    expect((await node.report()).media.filter(({ medium }) => medium.startsWith('sd'))).toEqual([]);
    await machine().output('rm /etc/stickpin/stickpin.toml');
    await node.until('the stick to be read', ({ bundles: [entry] }) => (entry?.media.length ?? 0) > 0);
    await isPinned();
    await first.unplug();
    expect(await machine().output('systemctl show --property=NRestarts --value stickpin')).toBe('0');
  });

  const hosts = '/etc/containerd/certs.d/quay.example.com/hosts.toml';
  const dropIns = '/run/systemd/system/stickpin.service.d';

  /** The daemon's own test: PullImage over CRI, by digest. It gives up where a runtime is slow. */
  async function arePullsAnswered(): Promise<void> {
    await machine().until('pulls to be answered', async () => {
      await machine().run('stickpin doctor');
      const answered = (await node.report()).conditions.find(({ type }) => type === 'PullsAnswered');
      expect(answered).toMatchObject({ status: 'True' });
      return true;
    });
  }

  /** Settings of the unit, until {@link comesBack}. */
  async function changeUnit(service: string): Promise<void> {
    await machine().putFile(`${dropIns}/test.conf`, `[Service]\n${service}\n`);
    await machine().output('systemctl daemon-reload');
  }

  /**
   * Without a network no registry answers: the pull fails, within `mostMs`. It takes longer while
   * containerd does not answer, or at the socket of a start that fails late.
   */
  async function fallsThrough(mostMs = 10_000): Promise<void> {
    await machine().until('a pull to fall through', async () => {
      const [made] = await pull([bundle.contents.images[0]?.reference ?? '']);
      expect(made?.failure).toContain('quay.example.com');
      // Within a second on a machine that is not emulated: see masked-pulls.test.ts.
      expect(made?.elapsedMs).toBeLessThan(mostMs);
      return true;
    });
  }

  async function comesBack(): Promise<void> {
    await machine().output(`rm -rf ${dropIns}; systemctl daemon-reload; systemctl restart stickpin`);
    await machine().untilOutput('the mirrors to be back', `test -s ${hosts}`);
    await isPinned();
  }

  /** How long a command takes by the guest's clock, by which its watchdogs count too. */
  async function guestMs(command: string): Promise<number> {
    const uptime = 'cut -d" " -f1 /proc/uptime';
    const [before, after] = (await machine().output(`${uptime} && ${command} && ${uptime}`)).split('\n').map(Number);
    if (before === undefined || after === undefined) throw new Error(`no times around ${command}`);
    return (after - before) * 1_000;
  }

  test('a daemon that is stopped by a signal holds pulls no longer than its watchdog', async () => {
    const pid = await machine().output('systemctl show -P MainPID stickpin');
    await changeUnit('WatchdogSec=30');
    const restartMs = await guestMs('systemctl restart stickpin');
    const [image] = bundle.contents.images;
    // Again where containerd does not answer the new daemon.
    await machine().until('a pull to wait for the watchdog', async () => {
      await isPinned();
      await machine().output('kill -STOP $(systemctl show -P MainPID stickpin)');
      const [stalled] = await pull([image?.reference ?? '']);
      expect(stalled?.failure).toBeUndefined();
      // The watchdog, RestartSec=, a start that may be as slow again as the one before, and two
      // minutes for the core of the killed process, the first round and the pull itself.
      expect(stalled?.elapsedMs).toBeLessThan(30_000 + 2_000 + 2 * restartMs + 120_000);
      return true;
    });
    expect(await machine().output('systemctl show -P MainPID stickpin')).not.toBe(pid);
    expect(await machine().output('systemctl show -P NRestarts stickpin')).not.toBe('0');
    await comesBack();
  });

  test('a change of settings restarts it at once, each time again, and its mirrors stay', async () => {
    const settings = '/etc/stickpin/stickpin.toml';
    const mirrors = 'stat -c %i /etc/containerd/certs.d/quay.example.com/hosts.toml';
    const before = await machine().output(mirrors);
    const changes = [1, 2, 3].map((parallel) => `echo '[preload]\nparallel = ${parallel}' > ${settings}`);
    for (const change of [...changes, `rm ${settings}`]) {
      const pid = await machine().output('systemctl show -P MainPID stickpin');
      await machine().output(change);
      const isAnother = `pid=$(systemctl show -P MainPID stickpin) && test "$pid" -gt 0 && test "$pid" != ${pid}`;
      await machine().untilOutput('the restart', `${isAnother} && systemctl is-active stickpin`);
      // systemd counts no automatic restart, before which it would wait.
      expect(await machine().output('systemctl show -P NRestarts stickpin')).toBe('0');
    }
    expect(await machine().output(mirrors)).toBe(before);
    await isPinned();
  });

  test('a start that hangs ends at its time limit, and takes the mirrors with it', async () => {
    const limitMs = 10_000;
    await changeUnit(
      `ExecStart=\nExecStart=/usr/bin/sleep infinity\nTimeoutStartSec=${limitMs / 1000}\nRestartSec=5min`,
    );
    await machine().output('systemctl --no-block restart stickpin');
    await machine().untilOutput('the start to hang', 'test "$(systemctl show -P SubState stickpin)" = start');
    // It waits behind the socket, until systemd gives the start up.
    await fallsThrough(limitMs + 20_000);
    await expect.poll(() => machine().output('systemctl show -P Result stickpin')).toBe('timeout');
    await machine().untilOutput('the mirrors to go', `test ! -e ${hosts}`);
    await machine().untilOutput('the socket to close', '! systemctl is-active stickpin-registry.socket');
    await comesBack();
  });

  test('removes the mirrors after a crash loop, a stop between two starts or a mask; a start writes them again', async () => {
    await changeUnit('Environment=NODE_OPTIONS=--require=/none.js');
    await machine().output('systemctl --no-block restart stickpin');
    await machine().untilOutput('the mirrors to go', `test ! -e ${hosts}`);
    // Nothing waits behind the socket between two starts.
    await machine().untilOutput('the socket to close', '! systemctl is-active stickpin-registry.socket');
    await fallsThrough();
    await comesBack();
    // A pull that waits at the socket would start the service again.
    await arePullsAnswered();
    await changeUnit('RestartSec=5min');
    await machine().output('systemctl kill --signal=SIGKILL stickpin');
    await machine().untilOutput(
      'systemd to wait for the next start',
      'systemctl show -P SubState stickpin | grep auto-restart',
    );
    await machine().output('systemctl stop stickpin');
    await machine().untilOutput('the mirrors to go', `test ! -e ${hosts}`);
    await comesBack();
    await machine().output('systemctl mask --now stickpin.service');
    await machine().untilOutput('the mirrors to go', 'test -z "$(ls -A /etc/containerd/certs.d)"');
    await fallsThrough();
    await machine().output('systemctl unmask stickpin.service; systemctl start stickpin-registry.socket');
    await comesBack();
  });

  test('without the socket of systemd the daemon says who must open it, and starts when it is there', async () => {
    await machine().output('systemctl stop stickpin && systemctl mask --now stickpin-registry.socket');
    await machine().run('systemctl --no-block start stickpin');
    const fault = "the registry can't listen on 127.0.0.1:5317: .*EAFNOSUPPORT.*; systemd must open the socket";
    await machine().untilOutput('the line that says so', `journalctl --boot --unit=stickpin --grep="${fault}"`);
    await machine().output('systemctl unmask stickpin-registry.socket && systemctl stop stickpin');
    await machine().output('systemctl start stickpin-registry.socket stickpin.service');
    await isPinned();
  });

  test.each([
    ['vfat in MBR', { filesystem: 'vfat', table: 'mbr' }],
    ['exfat in GPT', { filesystem: 'exfat', table: 'gpt' }],
    ['iso9660 on the bare disk', { filesystem: 'iso9660', table: 'none' }],
    ['squashfs in GPT', { filesystem: 'squashfs', table: 'gpt' }],
  ] as const)('a bundle is read from %s', async (_name, options) => {
    const folder = join(directory, 'stick');
    const image = join(directory, `${options.filesystem}.img`);
    const isExfat = options.filesystem === 'exfat';
    const stick = await makeStick({ image, ...options, ...(!isExfat && { folder }) });
    if (isExfat) await machine().fillStick(stick, folder);
    const before = (await node.report()).media.length;
    const plugged = await machine().plug(stick);
    const report = await node.until(
      'the stick to be read',
      ({ media }) => media.length > before && media.every(({ state }) => state === 'read'),
    );
    expect(report.media.at(-1)).toMatchObject({ medium: expect.stringMatching(/^sd[a-z]1?$/), bundles: 1 });
    expect(report.rejected).toEqual([]);
    await plugged.unplug();
    await node.until('the stick to be gone', ({ media }) => media.length === before);
  });

  test.each(['vfat', 'ext4'] as const)(
    'an image of bundle create --filesystem %s is read as it is',
    async (filesystem) => {
      const dir = join(directory, `image-${filesystem}`);
      const { path } = await makeSampleBundle({ dir, keys: [key], filesystem });
      const before = (await node.report()).media.length;
      const plugged = await machine().plug({ image: path, filesystem, partition: 1 });
      const report = await node.until(
        'the stick to be read',
        ({ media }) => media.length > before && media.every(({ state }) => state === 'read'),
      );
      expect(report.media.at(-1)).toMatchObject({ medium: expect.stringMatching(/^sd[a-z]1$/), bundles: 1 });
      expect(report.rejected).toEqual([]);
      await plugged.unplug();
      await node.until('the stick to be gone', ({ media }) => media.length === before);
    },
  );

  test('bundle write fills a plugged stick for whoever may write to it, which the node reads at once, and refuses other disks', async () => {
    const { path: image } = await makeSampleBundle({ dir: join(directory, 'write'), keys: [key], filesystem: 'vfat' });
    const shared = await machine().share(image);
    const [command = ''] = await blocksBelow('docs/factory.md', '### Write it to a stick');
    expect(command).toBe('sudo stickpin bundle write stick.img /dev/sdb\n');
    const write = (device: string, user = 'root') => {
      const argv = command.replace('sudo ', '').replace('stick.img', shared).replace('/dev/sdb', device).trim();
      return machine().run(`runuser --user ${user} -- ${argv} --yes`);
    };
    const system = await machine().output('findmnt --noheadings --output SOURCE /');
    const refused = await write(system);
    expect(refused).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('holds filesystems of this machine'),
    });

    const stick = join(directory, 'blank.img');
    await writeFile(stick, '');
    await truncate(stick, 256 * 1024 * 1024);
    const before = (await node.report()).media.length;
    const plugged = await machine().plug({ image: stick, filesystem: 'vfat' });
    await machine().untilOutput('the stick', `test -b ${plugged.devicePath}`);
    const device = await machine().output(`realpath ${plugged.devicePath}`);
    expect(await write(device, 'nobody')).toMatchObject({
      exitCode: 1,
      stderr: expect.stringMatching(/sd[a-z] can't be opened: only root may write to it: run the command with sudo/),
    });
    // As where a user may write to sticks.
    await machine().output(`chown nobody ${device}`);
    const written = await write(device, 'nobody');
    expect(written).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/written, read back and compared/) });
    const report = await node.until(
      'the stick to be read',
      ({ media }) => media.length > before && media.every(({ state }) => state === 'read'),
    );
    expect(report.media.at(-1)).toMatchObject({ medium: expect.stringMatching(/^sd[a-z]1$/), bundles: 1 });
    expect(await write(device)).toMatchObject({
      exitCode: 1,
      stderr: expect.stringMatching(/sd[a-z]1 is mounted at .*stickpin.*: run umount/),
    });
    expect(await write(`${device}1`)).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('is a partition') });
    await plugged.unplug();
    await node.until('the stick to be gone', ({ media }) => media.length === before);
    const bytes = await readFile(image);
    expect((await readFile(stick)).subarray(0, bytes.length).equals(bytes)).toBe(true);
  });

  test('a hook installs software of the node from the stick before the tags move', async () => {
    const unit = 'k3s-install.service';
    const example = await readFile(new URL(`../../docs/examples/${unit}`, import.meta.url), 'utf8');
    await machine().putFile(`/etc/systemd/system/${unit}`, example);
    await machine().output('systemctl daemon-reload');
    await machine().putFile('/etc/stickpin/stickpin.toml', `[hooks]\nbefore-activate = "${unit}"\n`);
    await machine().output('systemctl restart stickpin');
    const k3s = join(directory, 'k3s');
    await writeFile(k3s, '#!/bin/sh\necho k3s of 4.13.8\n');
    await truncate(k3s, 20 * 1024 * 1024);
    const dir = join(directory, 'next/stickpin');
    const attachments = [{ path: k3s, name: 'k3s', mediaType: 'application/octet-stream' }];
    await makeSampleBundle({ dir, keys: [key], version: '4.13.8', sequence: bundle.payload.sequence + 1, attachments });
    const image = join(directory, 'next.img');
    const stick = await makeStick({ image, folder: join(directory, 'next'), filesystem: 'ext4', table: 'none' });
    const plugged = await machine().plug(stick);
    await node.until('activation', ({ bundles }) =>
      bundles.some(({ version, phase, current }) => version === '4.13.8' && phase === 'activated' && current === true),
    );
    await plugged.unplug();
    expect(await machine().output('stat -c %a:%s /usr/local/bin/k3s')).toBe(`755:${20 * 1024 * 1024}`);
    expect(await machine().output(`systemctl show -P Result ${unit}`)).toBe('success');
    expect(await machine().output(`cat /run/stickpin/hooks/${unit}.env`)).toContain('STICKPIN_VERSION="4.13.8"');
    await machine().output(`rm /etc/stickpin/stickpin.toml; systemctl restart stickpin`);
  });

  test('a release that was asked for before a power cut waits until its damaged image is healed', async () => {
    const next = await makeSampleBundle({
      dir: join(directory, 'asked/stickpin'),
      keys: [key],
      version: '4.13.9',
      sequence: bundle.payload.sequence + 2,
      schedule: 'manual',
    });
    const image = join(directory, 'asked.img');
    const stick = await makeStick({ image, folder: join(directory, 'asked'), filesystem: 'ext4', table: 'none' });
    const entryIn = ({ bundles }: StatusReport) => bundles.find(({ version }) => version === '4.13.9');
    let plugged = await machine().plug(stick);
    await node.until('the release to be ready', (report) => entryIn(report)?.phase === 'ready');
    await plugged.unplug();

    // It can't be activated before the power is cut. A request is refused once the daemon knows
    // that containerd does not answer, as when a command takes long to start.
    const activate = "busctl call io.stickpin1 /io/stickpin1 io.stickpin1.Manager Activate 'sa{sv}' ocp@4.13.9 0";
    const stop = (signal: string) => `systemctl kill --signal=${signal} containerd`;
    await machine().untilOutput(
      'the request to be taken',
      `${stop('SIGSTOP')} && ${activate} || { ${stop('SIGCONT')}; false; }`,
    );
    await machine().output(`truncate --size=100 ${blobPath(next)} && sync`);
    await machine().powerCut();
    const isDamaged = (report: StatusReport) =>
      entryIn(report)?.degraded?.code === 'engine/image-damaged' && report.status.includes('damaged');
    expect(entryIn(await node.until('the damage to be found', isDamaged))?.phase).toBe('ready');
    plugged = await machine().plug(stick);
    await node.until('activation', (report) => entryIn(report)?.phase === 'activated');
    const [layer] = next.contents.layers;
    expect(await machine().output(`stat -c %s ${blobPath(next)}`)).toBe(String(layer?.sizeBytes));
    await plugged.unplug();
  });

  test('keeps the pins and removes the mirrors when the daemon is stopped, also by SIGKILL', async () => {
    await machine().output('systemctl kill --signal=SIGKILL stickpin');
    await machine().untilOutput('the daemon to be back', 'systemctl is-active stickpin');
    await isPinned();
    await machine().output('systemctl stop stickpin');
    expect(await machine().output('ls -A /etc/containerd/certs.d')).toBe('');
    const status = await machine().run('stickpin status');
    expect(status.exitCode).toBe(3);
    expect(status.stderr).toMatch(/systemctl start stickpin/);
  });
});

import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import type { BundleReport, StatusReport } from '../../src/domain/report/status-schema.ts';
import { messageIds } from '../../src/platform/message-ids.ts';
import { makeSampleBundle, type SampleBundle, sampleKey } from '../support/bundles/sample-bundle.ts';
import { sampleImage, sampleLayer } from '../support/bundles/sample-image.ts';
import { folderForAll } from '../support/files/temporary-folder.ts';
import { describeMachine } from './machine/describe-machine.ts';
import { installCriPuller, pullAll } from './machine/product/cri-pull.ts';
import { startInstalled } from './machine/product/install-package.ts';
import { crioConfiguration, stickpinOn } from './machine/product/node.ts';
import { makeStick, type Stick, type StickOptions } from './machine/qemu/stick.ts';

const MIB = 1024 * 1024;
const PINS = '/run/crio/crio.conf.d/99-stickpin.conf';
const MIRRORS = '/etc/containers/registries.conf.d/99-stickpin.conf';

/**
 * A transfer waits for its stick as long as these tests may take to plug it in again, whatever else
 * the host has to do.
 */
const configuration = '[media]\ngrace = "30 min"\n';

/**
 * The whole way on a real machine: systemd, udev, D-Bus, a USB stick, and CRI-O by its double.
 * Tests lean on the ones before.
 */
describeMachine('a node with CRI-O', 'installed', (machine) => {
  const node = stickpinOn(machine);
  const key = sampleKey('factory-2026');
  const directory = folderForAll();
  let first: SampleBundle;
  let second: SampleBundle;

  const stickWith = (name: string, options: Omit<StickOptions, 'image'>): Promise<Stick> =>
    makeStick({ image: join(directory, `${name}.img`), ...options });

  const isPinned = ({ bundleId, contents }: SampleBundle, phase: 'activated' | 'ready' = 'activated') =>
    node.untilPinned(phase, contents.images.length, bundleId);
  const hasMirrors = () =>
    machine().untilOutput('the mirrors to be there', `grep --quiet '\\[\\[registry\\]\\]' ${MIRRORS}`);

  beforeAll(async () => {
    first = await makeSampleBundle({ dir: join(directory, 'first/stickpin'), keys: [key] });
    const base = sampleLayer({ seed: 'base', sizeBytes: 24 * MIB });
    second = await makeSampleBundle({
      dir: join(directory, 'second/stickpin'),
      version: '4.13.8',
      sequence: 2,
      schedule: 'manual',
      keys: [key],
      images: ['etcd', 'api'].map((name) => ({
        reference: `quay.example.com/ocp/${name}:4.13.8`,
        image: sampleImage({ seed: name, layers: [base, sampleLayer({ seed: name, sizeBytes: 16 * MIB })] }),
      })),
    });
  });

  test('is installed from the .deb, starts, and says that it waits', async () => {
    await machine().output('systemctl enable --now crio.service');
    await startInstalled(machine(), { keys: { 'factory-2026': key.publicPem }, configuration });
    expect(await machine().output('systemctl is-active stickpin')).toBe('active');
    await machine().untilOutput('the status', 'stickpin status');
    await expect.poll(node.statusText).toBe('IDLE: No bundle yet. Waiting for a stick.');
    expect(await machine().output('systemctl show --property=NRestarts --value stickpin')).toBe('0');
    expect(await machine().output('systemctl is-active stickpin-registry.socket')).toBe('active');
    await expect
      .poll(async () => (await node.journal()).map((line) => line.MESSAGE))
      .toContain('stickpin started; its registry listens on 127.0.0.1:5317');
  });

  test('a plugged stick is mounted safely, verified, preloaded and pinned, without a question', async () => {
    const stick = await stickWith('first', { folder: join(directory, 'first') });
    const plugged = await machine().plug(stick);
    await isPinned(first);
    const mounts = await machine().output('grep /run/stickpin/media/ /proc/mounts');
    for (const option of ['ro', 'nosuid', 'nodev', 'noexec', 'nosymfollow']) {
      expect(mounts.split(' ')[3]?.split(',')).toContain(option);
    }
    await expect
      .poll(() => machine().output('systemctl status stickpin --no-pager'))
      .toMatch(
        /Status: "DONE: ocp 4\.13\.7 is installed\. Remove the stick\. It is activated: 2 images present and pinned\."/,
      );
    for (const { reference } of first.contents.images) {
      expect(await machine().output(`cat ${PINS}`)).toContain(`"${reference}"`);
    }
    await hasMirrors();
    await plugged.unplug();
    await node.until('the stick to be gone', (report) => report.media.every(({ medium }) => medium.startsWith('/')));
    await machine().untilOutput('no stick to be mounted', '! grep /run/stickpin/media/ /proc/mounts');
  });

  test('the journal has all steps, with fields and message ids that the catalog explains', async () => {
    const isLast = ({ MESSAGE_ID }: Readonly<Record<string, string>>) => MESSAGE_ID === messageIds.bundleActivated;
    const lines = await machine().until('the last step to be in the journal', async () => {
      const all = await node.journal();
      return all.some(isLast) && all;
    });
    const told = (id: string) => lines.find((line) => line.MESSAGE_ID === id);
    expect(told(messageIds.bundleVerified)).toMatchObject({ BUNDLE_ID: first.bundleId, SYSLOG_IDENTIFIER: 'stickpin' });
    expect(told(messageIds.bundleVerified)?.MEDIUM).toMatch(/^sd[a-z]1$/);
    expect(told(messageIds.imagePulled), 'a line for each image is of priority debug').toBeUndefined();
    await expect
      .poll(async () => (await machine().output('stickpin history')).match(/ Pulled \S+@sha256:/g))
      .toHaveLength(first.contents.images.length);
    expect(told(messageIds.bundleReady)?.MESSAGE).toBe('ocp 4.13.7 is ready: 2 images present and pinned');
    expect(await machine().output('journalctl --boot --unit=stickpin --catalog --no-pager')).toMatch(
      /Defined-By: stickpin/,
    );
    await expect
      .poll(() => machine().output('ls -l /var/lib/stickpin/state.db && stickpin list'))
      .toMatch(/ocp@4\.13\.7 +activated \(current\) +2\/2/);
  });

  test('after a reboot the pins are in place before CRI-O starts', async () => {
    await machine().reboot();
    await isPinned(first);
    await expectPinsAtStart();
  });

  test('after a reboot with the daemon masked the pins are in place before CRI-O starts too', async () => {
    await machine().output('systemctl mask stickpin.service');
    // As a power cut in the middle of a preload leaves it, for containerd.
    const hosts = '/etc/containerd/certs.d/quay.example.com/hosts.toml';
    const theirs = 'server = "https://theirs.example.com"\n';
    await machine().putFile(hosts, '# Written by stickpin while images are loaded\nserver = "http://127.0.0.1:5317"\n');
    await machine().putFile(`${hosts}.stickpin-saved`, theirs);
    await machine().reboot();
    expect(await machine().run('systemctl is-active stickpin')).toMatchObject({ stdout: 'inactive\n' });
    // A socket whose service is masked would fail.
    expect(await machine().run('systemctl is-active stickpin-registry.socket')).toMatchObject({ stdout: 'inactive\n' });
    await expectPinsAtStart();
    expect(`${await machine().output(`cat ${hosts}; ls ${hosts}*`)}\n`).toBe(`${theirs}${hosts}\n`);
    await machine().output('systemctl unmask stickpin.service && systemctl start stickpin');
    await isPinned(first);
  });

  /** What CRI-O read at its start, before anything could have reloaded it. */
  async function expectPinsAtStart(): Promise<void> {
    await machine().untilOutput('CRI-O to be active', 'systemctl is-active crio');
    expect(await machine().output(`readlink /etc/crio/crio.conf.d/99-stickpin.conf`)).toBe(PINS);
    const config = await crioConfiguration(machine());
    for (const { reference } of first.contents.images) {
      expect(await machine().output(`cat ${PINS}`)).toContain(`"${reference}"`);
      expect(config).toContain(reference);
    }
  }

  test('CRI-O restarted and a stick unplugged during a transfer: reported; plugged in again, it continues from the byte', async () => {
    const stick = await stickWith('second', { folder: join(directory, 'second'), filesystem: 'ext4' });
    // So slow that the first image of 40 MiB takes minutes: however late this test looks, it is
    // under way.
    const plugged = await machine().plug(stick, { bytesPerSecond: MIB / 4 });
    const isMoving = ({ operation, progress }: StatusReport) =>
      operation === 'preloading' && progress.doneBytes > 2 * MIB;
    const loading = /^LEAVE THE STICK IN: Preloading ocp 4\.13\.8 from the stick: 0\/2 images, [\d.]+ of 56 MiB/;
    await node.until('some megabytes to be there', (report) => isMoving(report) && loading.test(report.status));
    // CRI-O waits for its pulls before it ends; the daemon has broken them off, so that no image is
    // there when it is back.
    await machine().output('systemctl restart crio.service');
    await node.until(
      'the preload to go on',
      (report) => report.runtime.reachable && report.bundles[1]?.images.present === 0 && isMoving(report),
    );
    await plugged.unplug();
    await node.until('the removal to be told', ({ status }) =>
      /^PLUG IN THE STICK AGAIN \(M-10\): Stick removed while preloading ocp 4\.13\.8 \(0\/2 images\)\.$/.test(status),
    );
    expect(await machine().output('systemctl is-active stickpin')).toBe('active');
    const again = await machine().plug(stick);
    await isPinned(second, 'ready');
    await expect
      .poll(node.statusText)
      .toBe(
        "DONE: ocp 4.13.8 is loaded: 2 images present and pinned. Remove the stick. An administrator activates it. To activate it: 'stickpin activate ocp@4.13.8'.",
      );
    const lines = await node.journal();
    const removed = lines.findIndex(({ MESSAGE }) => MESSAGE?.includes('was removed while preloading') === true);
    expect(removed).toBeGreaterThan(0);
    // On a busy machine CRI-O may take longer to read its mirrors than is waited for; a pull that
    // fails then was not a transfer.
    const isTransfer = ({ MESSAGE_ID, CODE }: Readonly<Record<string, string>>) =>
      MESSAGE_ID === messageIds.pullFailed && CODE !== 'engine/mirror-unused';
    expect(lines.slice(removed).filter(isTransfer)).toEqual([]);
    await again.unplug();
  });

  test('activation sets the tags of the images without the stick', async () => {
    // It is refused while CRI-O does not answer.
    await machine().untilOutput('the request to be taken', 'stickpin activate ocp@4.13.8');
    await isPinned(second);
    await expect
      .poll(node.statusText)
      .toBe('IDLE: ocp 4.13.8 activated (2 images present and pinned). Waiting for a stick.');
  });

  test('a stick with a bundle of an unknown signer, and a stick without a bundle, each give one clear line', async () => {
    const stranger = sampleKey('stranger');
    await makeSampleBundle({ dir: join(directory, 'strange/stickpin'), name: 'evil', keys: [stranger] });
    const plugged = await machine().plug(await stickWith('strange', { folder: join(directory, 'strange') }));
    const refused = /: Rejected bundle on the stick: .*unknown key/;
    await node.until('the rejection', ({ rejected, status }) => rejected.length > 0 && refused.test(status));
    await plugged.unplug();
    const empty = await machine().plug(await stickWith('empty', { table: 'none' }));
    await node.until('the empty stick to be told', ({ status }) => /[Tt]he stick carries no bundle/.test(status));
    await empty.unplug();
  });

  test('after a power cut pins, tags, mirrors and images are as they were, and pulls need no network', async () => {
    const mirrors = await machine().output(`cat ${MIRRORS}`);
    expect(mirrors).toContain('[[registry]]');
    // What CRI-O reads, before the daemon starts: it comes after CRI-O.
    const seen = '/run/mirrors-at-start';
    await machine().output('mkdir -p /etc/systemd/system/crio.service.d');
    const copy = `[Service]\nExecStartPre=/bin/cp ${MIRRORS} ${seen}\n`;
    await machine().putFile('/etc/systemd/system/crio.service.d/90-seen.conf', copy);
    // Nodes other than those of OpenShift don't wipe at boot.
    await machine().output('systemctl mask crio-wipe.service && sync');
    await machine().powerCut();
    await isPinned(first);
    await isPinned(second);
    expect(await machine().output(`cat ${seen}`)).toBe(mirrors);
    expect(await machine().output('ls /sys/class/net')).toBe('lo');
    const pull = await installCriPuller(machine(), '/var/run/crio/crio.sock');
    // By digest those of both releases, by tag those of the release that holds tags.
    const images = [...first.contents.images, ...second.contents.images];
    const tags = second.contents.images.flatMap((image) => image.tags);
    const names = [...images.map(({ reference }) => reference), ...tags];
    await pullAll(machine(), pull, names);
  });

  test('after a power cut whose boot wipes CRI-O, releases and mirrors stay, and the sticks are named', async () => {
    await machine().output('systemctl unmask crio-wipe.service && sync');
    await machine().powerCut();
    // It looks at the media first.
    const isNamed = ({ version, degraded }: BundleReport) =>
      degraded?.message.endsWith(`Plug in the stick of ocp ${version}`) === true;
    const report = await node.until(
      'the sticks to be named',
      ({ bundles }) => bundles.length === 2 && bundles.every(isNamed),
    );
    expect(report.bundles.map(({ phase }) => phase)).toEqual(['activated', 'activated']);
    expect(report.bundles.map(({ degraded }) => degraded?.code)).toEqual(Array(2).fill('engine/image-missing'));
    await hasMirrors();
  });
});

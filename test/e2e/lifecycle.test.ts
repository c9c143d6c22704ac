import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import type { StatusReport } from '../../src/domain/report/status-schema.ts';
import { programLayer, sandboxImage } from '../support/bundles/program-image.ts';
import { sampleKey } from '../support/bundles/sample-bundle.ts';
import { makeRunningRelease, type RunningRelease } from '../support/daemon/running-release.ts';
import { folderForAll } from '../support/files/temporary-folder.ts';
import { describeMachine } from './machine/describe-machine.ts';
import { startInstalled } from './machine/product/install-package.ts';
import { stickpinOn } from './machine/product/node.ts';
import { type MachinePods, startContainerdWithPods } from './machine/product/pods.ts';
import { makeStick } from './machine/qemu/stick.ts';

const SETTINGS = '/etc/stickpin/stickpin.toml.d/50-test.toml';
const KNOWN_GOOD = ['/run/stickpin/images.env', '/var/lib/stickpin/images.env'];

const soakOf = (soak: string) => `[lifecycle]\nsoak = "${soak}"\n`;

/**
 * Three releases over their whole life, with real containers of containerd and a boot in between.
 * Tests lean on the ones before.
 */
describeMachine('releases over their life', 'installed', (machine) => {
  const node = stickpinOn(machine);
  const key = sampleKey('factory-2026');
  const directory = folderForAll();
  let pods: MachinePods;
  let a: RunningRelease;
  let b: RunningRelease;
  let c: RunningRelease;

  beforeAll(async () => {
    const program = await programLayer();
    const dirOf = (name: string) => ({ dir: join(directory, name, 'stickpin'), keys: [key] });
    a = await makeRunningRelease(1, program, dirOf('a'));
    b = await makeRunningRelease(2, program, { ...dirOf('b'), schedule: 'manual' });
    c = await makeRunningRelease(3, program, dirOf('c'));
  });

  /**
   * Waits until exactly these releases are known, in these phases, and those that are kept are
   * there and pinned.
   */
  const become = (what: string, phases: Readonly<Record<string, string>>) => {
    const isSo = ({ runtime, operation, bundles }: StatusReport) => {
      const isKept = bundles.every(
        ({ phase, images }) =>
          phase === 'retired' || (images.present === images.total && images.pinned === images.total),
      );
      const found = Object.fromEntries(bundles.map(({ version, phase }) => [version, phase]));
      return runtime.reachable && operation === 'idle' && isKept && isSame(found, phases);
    };
    return node.until(what, isSo);
  };

  /** Plugs in a stick with the release and pulls it out once that has come so far. */
  async function bring(name: string, what: string, phases: Readonly<Record<string, string>>): Promise<void> {
    const stick = await makeStick({ image: join(directory, `${name}.img`), folder: join(directory, name) });
    const plugged = await machine().plug(stick);
    await become(what, phases);
    await plugged.unplug();
  }

  /**
   * Starts the containers of a release in place of those that run. stickpin looks by itself as
   * well, but within half a minute.
   */
  async function run(release: RunningRelease): Promise<void> {
    await pods.run(release.pods);
    await node.rescan();
  }

  async function setSoak(soak: string): Promise<void> {
    await machine().putFile(SETTINGS, soakOf(soak));
    await machine().output('systemctl restart stickpin');
    // Until the runtime has answered, nothing counts as ready.
    await node.until('the runtime to answer', ({ runtime }) => runtime.reachable);
  }

  /** It is refused while containerd does not answer. */
  const order = (command: string) => machine().untilOutput(`${command} to be accepted`, `stickpin ${command}`);

  const imageNames = async () => (await machine().output('ctr --namespace k8s.io images ls -q')).split('\n');

  async function expectTagNames(release: RunningRelease): Promise<void> {
    const tag = release.contents.images.find(({ component }) => component === 'etcd')?.tags[0] ?? '';
    const [, digest = ''] = (release.pods.etcd ?? '').split('@');
    await expect.poll(() => machine().output(`ctr --namespace k8s.io images ls "name==${tag}"`)).toContain(digest);
  }

  async function expectKnownGood(release: RunningRelease): Promise<void> {
    for (const path of KNOWN_GOOD) {
      await machine().untilOutput(
        path,
        `grep --fixed-strings --line-regexp 'STICKPIN_ETCD=${release.pods.etcd}' ${path}`,
      );
    }
  }

  /** What units read that start containers without the control plane. */
  async function lastStatus() {
    const { bundles, bootId } = JSON.parse(await machine().output('cat /run/stickpin/status.json'));
    return {
      isOfThisBoot: bootId === (await machine().output('cat /proc/sys/kernel/random/boot_id')).trim(),
      phases: bundles.map(({ version, phase }: StatusReport['bundles'][number]) => `${version} ${phase}`),
    };
  }

  test('the first release is proven by its containers', async () => {
    pods = await startContainerdWithPods(machine());
    await startInstalled(machine(), { keys: { 'factory-2026': key.publicPem }, configuration: soakOf('5 s') });
    await bring('a', 'activation', { '1.1.0': 'activated' });
    await run(a);
    await become('the first release to be proven', { '1.1.0': 'proven' });
    await expectKnownGood(a);
  });

  test('while the second release is only ready, the first one is the last known good one after a boot, even without the daemon', async () => {
    await bring('b', 'the second release to be ready', { '1.1.0': 'proven', '1.2.0': 'ready' });
    await machine().output('systemctl mask stickpin.service');
    await machine().reboot();
    expect(await machine().run('systemctl is-active stickpin')).toMatchObject({ stdout: 'inactive\n' });
    await expectKnownGood(a);
    const started = `systemd-run --pipe --wait --quiet --property=EnvironmentFile=${KNOWN_GOOD[0]} sh -c 'echo $STICKPIN_API'`;
    expect(await machine().output(started)).toBe(a.pods.api);
    expect(await lastStatus()).toMatchObject({ isOfThisBoot: false, phases: ['1.1.0 proven', '1.2.0 ready'] });
    await machine().output('systemctl unmask stickpin.service && systemctl start stickpin');
    await become('everything to be as it was', { '1.1.0': 'proven', '1.2.0': 'ready' });
    await expect.poll(lastStatus).toMatchObject({ isOfThisBoot: true });
    await expectTagNames(a);
  });

  test('after a power cut the soak of the activated second release starts again, and the first one is the last known good one', async () => {
    await setSoak('1 h');
    await order('activate ocp@1.2.0');
    await become('activation', { '1.1.0': 'proven', '1.2.0': 'activated' });
    await expectTagNames(b);
    await run(b);
    await become('the second release to run', { '1.1.0': 'proven', '1.2.0': 'active' });
    await machine().powerCut();
    await become('the second release to run again', { '1.1.0': 'proven', '1.2.0': 'active' });
    const soaks = /ocp 1\.2\.0 active \(3 images pinned\), proven in about /;
    await node.until('the soak to be in STATUS', ({ status }) => soaks.test(status));
    await expectKnownGood(a);
  });

  test('the second release is proven and the first one is the fallback, also after a boot', async () => {
    await setSoak('5 s');
    const phases = { '1.1.0': 'superseded', '1.2.0': 'proven' };
    await become('the second release to be proven', phases);
    await expectKnownGood(b);
    await machine().reboot();
    await become('everything to be as it was', phases);
    await expectKnownGood(b);
  });

  test('once the third release is proven, the first one is retired and its images are removed', async () => {
    await bring('c', 'activation', { '1.1.0': 'superseded', '1.2.0': 'proven', '1.3.0': 'activated' });
    await run(c);
    const phases = { '1.1.0': 'retired', '1.2.0': 'superseded', '1.3.0': 'proven' };
    await become('the third release to be proven', phases);
    await expectRemoved(a);
    await machine().reboot();
    await become('everything to be as it was', phases);
    await expectRemoved(a);
    // A container and a sandbox for each pod: what runs is what the boot started.
    await expect
      .poll(async () => (await machine().output('ctr --namespace k8s.io tasks ls')).match(/ RUNNING/g))
      .toHaveLength(2 * Object.keys(c.pods).length);
  });

  /**
   * What only it had is gone, down to the layers; what others have and what was never ours is not.
   */
  async function expectRemoved(release: RunningRelease): Promise<void> {
    const isGone = async () => (await imageNames()).every((name) => !Object.values(release.pods).includes(name));
    await machine().until('the images to go', isGone);
    const tools = release.contents.images.find(({ component }) => component === 'tools')?.reference;
    await expect.poll(imageNames).toEqual(expect.arrayContaining([tools, sandboxImage]));
    const layers = release.images.flatMap(({ image }) => image.layers.slice(1));
    for (const { digest } of layers.slice(0, 2)) {
      await machine().untilOutput('the layer to go', `! ctr --namespace k8s.io content ls -q | grep -q ${digest}`);
    }
  }

  test('a rollback activates the fallback without its stick, and the fallback is proven again', async () => {
    await order('rollback');
    await become('activation', { '1.1.0': 'retired', '1.2.0': 'activated', '1.3.0': 'proven' });
    await expectTagNames(b);
    await run(b);
    await become('the fallback to be proven', { '1.1.0': 'retired', '1.2.0': 'proven', '1.3.0': 'superseded' });
    await expectKnownGood(b);
  });
});

function isSame(one: Readonly<Record<string, string>>, other: Readonly<Record<string, string>>): boolean {
  const names = Object.keys({ ...one, ...other });
  return names.every((name) => one[name] === other[name]);
}

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { AppError } from '../../../../src/platform/app-error.ts';
import type { RuntimeAdapter } from '../../../../src/runtime/runtime-adapter.ts';
import { programLayer } from '../../../support/bundles/program-image.ts';
import type { SampleLayer } from '../../../support/bundles/sample-image.ts';
import { fixtureContainers } from '../../../support/crio-double/cri/fixture-containers.ts';
import {
  createDaemonHarness,
  type DaemonHarness,
  type HarnessOptions,
} from '../../../support/daemon/daemon-harness.ts';
import { makeRunningRelease, type RunningRelease } from '../../../support/daemon/running-release.ts';
import { startContainerd } from '../../../support/daemon/runtimes/containerd.ts';
import { createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { createShiftedClock, type ShiftedClock } from '../../../support/daemon/shifted-clock.ts';
import { eventually } from '../../../support/eventually.ts';
import { createPods, type WantedPods } from '../../../support/pods/pods.ts';
import { have } from '../../../support/requirements.ts';
import { loseMirror } from '../../../support/state/lose-state.ts';

const DAY = 86_400_000;
const PATIENCE_MS = 60_000;
/** The tag that each release moves, and the one of release 1.2.0 alone. */
const [MOVING, OWN] = ['quay.example.com/ocp/etcd:current', 'quay.example.com/ocp/api:1.2.0'];
const podsProto = fileURLToPath(new URL('../../../support/pods', import.meta.url));

interface Node {
  readonly harness: DaemonHarness;
  /** Runs exactly these pods, as the kubelet would. */
  run(pods: WantedPods): Promise<void>;
  dispose(): Promise<void>;
}

async function onCrio(options: HarnessOptions): Promise<Node> {
  const { settings, ...others } = options;
  const node = await createCrioNode(settings, {}, others);
  const containers = fixtureContainers(node.double());
  return {
    harness: node.harness,
    run: async (pods) => {
      containers.clear();
      for (const [pod, reference] of Object.entries(pods)) await containers.start(pod, reference);
    },
    dispose: node.dispose,
  };
}

async function onContainerd(options: HarnessOptions): Promise<Node> {
  const containerd = await startContainerd({ withContainers: true });
  const pods = createPods({ socketPath: containerd.socketPath, protoRoot: podsProto });
  const runtime = { kind: 'containerd', socket: containerd.socketPath } as const;
  const harness = await createDaemonHarness({ ...options, settings: { ...options.settings, runtime } });
  return {
    harness,
    run: async (wanted) => void (await pods.sync(wanted)),
    dispose: async () => {
      await harness.dispose();
      pods.close();
      await containerd.stop();
    },
  };
}

describe.runIf(have('root', 'mmdebstrap')).each([
  { runtime: 'CRI-O', createNode: onCrio },
  { runtime: 'containerd', createNode: onContainerd },
])(
  'releases on $runtime after the database was lost',
  {
    timeout: 240_000,
  },
  ({ createNode }) => {
    let program: SampleLayer;
    let factory: string;
    let node: Node;
    let harness: DaemonHarness;
    let clock: ShiftedClock;
    let isBroken: boolean;

    beforeAll(async () => {
      program = await programLayer();
    });
    beforeEach(() => {
      factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
      isBroken = false;
      clock = createShiftedClock();
    });
    afterEach(async () => {
      await node.dispose();
      rmSync(factory, { recursive: true, force: true });
    });

    /** The tag {@link OWN} can't be given while `isBroken`. */
    const fault = (name: string) => {
      if (isBroken && name === OWN)
        throw new AppError({ code: 'runtime/pull-failed', message: 'EIO', disposition: 'retry' });
    };
    const watchRuntime = (runtime: RuntimeAdapter): RuntimeAdapter => ({
      ...runtime,
      addTag: async (tag, reference, signal) =>
        isBroken && tag === OWN ? false : runtime.addTag(tag, reference, signal),
      pull: async (reference, signal) => {
        fault(reference);
        await runtime.pull(reference, signal);
      },
    });
    const start = async (settings: HarnessOptions['settings'] = {}) => {
      node = await createNode({ settings: { lifecycle: { soak: DAY }, ...settings }, watchRuntime, clock });
      harness = node.harness;
      await harness.start();
    };
    const release = (sequence: number): Promise<RunningRelease> =>
      makeRunningRelease(sequence, program, { dir: factory, keys: [harness.key] });
    const entry = (version: string) => harness.report().bundles.find((one) => one.version === version);
    const phases = () => Object.fromEntries(harness.report().bundles.map(({ version, phase }) => [version, phase]));
    const become = async (wanted: Readonly<Record<string, string>>) => {
      harness.daemon().engine.kick();
      await expect.poll(phases, { timeout: PATIENCE_MS }).toEqual(wanted);
    };
    const unplug = async () => {
      harness.unplug();
      await harness.until(({ media }) => media.every(({ medium }) => !medium.endsWith('/stick')));
    };
    const bring = async ({ path, bundleId }: RunningRelease) => {
      harness.plug(path);
      await harness.until(
        (report) =>
          report.operation === 'idle' &&
          report.bundles.some((one) => one.bundleId === bundleId && one.activatedAt !== undefined),
        PATIENCE_MS,
      );
      await unplug();
    };
    /** The first release, proven and running. */
    const bringFirst = async (): Promise<RunningRelease> => {
      const first = await release(1);
      await bring(first);
      await node.run(first.pods);
      await become({ '1.1.0': 'active' });
      harness.daemon().engine.commands.prove({ bundle: 'ocp@1.1.0' });
      await become({ '1.1.0': 'proven' });
      return first;
    };
    /**
     * What the runtime has once every image is pinned: each of their names, and what each tag
     * names. The test pull at a start takes a pin away for a moment (docs/runtime-facts.md, fact
     * 22).
     */
    const inRuntime = async () => {
      const images = await eventually(async () => {
        const found = (await harness.images()).filter(({ repoDigests }) =>
          repoDigests.some((name) => name.startsWith('quay.example.com/')),
        );
        expect(found.filter(({ pinned }) => !pinned)).toEqual([]);
        return found;
      });
      return {
        pinned: images.flatMap(({ repoDigests }) => repoDigests).sort(),
        tags: Object.fromEntries(
          images.flatMap(({ repoTags, imageId }) => repoTags.map((tag) => [tag, imageId])).sort(),
        ),
      };
    };
    /** The daemon ends, its database is gone, and it starts again. */
    const loseDatabase = async ({ withMirror = false } = {}) => {
      await harness.daemon().engine.settled(AbortSignal.timeout(30_000));
      await harness.stop();
      const { state_dir: folder } = harness.settings.paths;
      if (withMirror) loseMirror(folder);
      for (const name of ['state.db', 'state.db-wal', 'state.db-shm']) rmSync(join(folder, name), { force: true });
      await harness.start();
      await harness.rounds();
    };
    const kinds = () =>
      harness
        .daemon()
        .engine.history(undefined, 200)
        .map(({ kind }) => kind);
    const underTag = async (tag: string) =>
      (await harness.images()).find(({ repoTags }) => repoTags.includes(tag))?.repoDigests;

    it('one that is active: all pins, tags and times are as before, and nothing is activated again', async () => {
      await start();
      await bringFirst();
      const second = await release(2);
      await bring(second);
      await node.run(second.pods);
      await become({ '1.1.0': 'proven', '1.2.0': 'active' });
      const [before, activatedAt] = [await inRuntime(), entry('1.2.0')?.activatedAt];
      await loseDatabase();
      await become({ '1.1.0': 'proven', '1.2.0': 'active' });
      await harness.rounds();
      expect(await inRuntime()).toEqual(before);
      expect(entry('1.2.0')).toMatchObject({ activatedAt, current: true });
      expect(kinds()).toContain('stateLost');
      expect(kinds()).not.toContain('bundleActivated');
      expect(harness.report().unclaimed).toEqual([]);
    });

    it('both, with the mirror: they are rebuilt from their documents, all pins stay, and no tag moves', async () => {
      await start();
      await bringFirst();
      const second = await release(2);
      await bring(second);
      await node.run(second.pods);
      await become({ '1.1.0': 'proven', '1.2.0': 'active' });
      const before = await inRuntime();
      await loseDatabase({ withMirror: true });
      await expect
        .poll(() => kinds().filter((kind) => kind === 'releaseRebuilt'), { timeout: PATIENCE_MS })
        .toHaveLength(2);
      await harness.rounds();
      expect(await inRuntime()).toEqual(before);
      expect(entry('1.2.0')?.activatedAt).toBeDefined();
      expect(phases()).not.toMatchObject({ '1.1.0': 'proven' });
      expect(kinds()).not.toContain('bundleActivated');
      expect(harness.report().unclaimed).toEqual([]);
    });

    it('one that was rolled back: it stays so, and is not activated again by itself, with its stick neither', async () => {
      await start();
      const first = await bringFirst();
      const second = await release(2);
      await bring(second);
      await node.run(second.pods);
      await become({ '1.1.0': 'proven', '1.2.0': 'active' });
      harness.daemon().engine.commands.rollback({ stream: 'ocp' });
      await node.run(first.pods);
      harness.daemon().engine.kick();
      await expect.poll(() => entry('1.2.0')?.reason?.code, { timeout: PATIENCE_MS }).toBe('engine/rolled-back');
      await expect.poll(() => underTag(MOVING), { timeout: PATIENCE_MS }).toContain(first.pods.etcd);
      await harness.rounds();
      // It proves itself anew.
      await become({ '1.1.0': 'active', '1.2.0': 'activated' });
      const [before, reason] = [await inRuntime(), entry('1.2.0')?.reason];
      await loseDatabase();
      await become({ '1.1.0': 'active', '1.2.0': 'activated' });
      expect(entry('1.2.0')?.reason).toEqual(reason);
      harness.plugAgain();
      await harness.until(({ bundles }) => bundles.some(({ media }) => media.length > 0));
      await harness.rounds();
      expect(await inRuntime()).toEqual(before);
      expect(entry('1.1.0')).toMatchObject({ current: true });
      expect(kinds()).not.toContain('bundleActivated');
    });

    /** The second release, of which one tag has moved and the other can't. */
    const bringHalf = async (): Promise<RunningRelease> => {
      const second = await release(2);
      isBroken = true;
      harness.plug(second.path);
      await expect.poll(kinds, { timeout: PATIENCE_MS }).toContain('activationFailed');
      await expect.poll(() => underTag(MOVING), { timeout: PATIENCE_MS }).toContain(second.pods.etcd);
      expect(await underTag(OWN)).toBeUndefined();
      await unplug();
      return second;
    };

    it('one that was half activated: its activation is finished', async () => {
      await start();
      await bringFirst();
      const second = await bringHalf();
      const { pinned } = await inRuntime();
      await harness.stop();
      isBroken = false;
      await harness.start();
      await loseDatabase();
      await become({ '1.1.0': 'proven', '1.2.0': 'activated' });
      expect(await underTag(OWN)).toContain(second.pods.api);
      expect((await inRuntime()).pinned).toEqual(pinned);
    });

    it('one that was half activated in a window that has closed: its activation is finished, as after a restart', async () => {
      const now = new Date(clock.now());
      const minute = now.getUTCHours() * 60 + now.getUTCMinutes();
      const window = { days: [(now.getUTCDay() + 6) % 7], startMinute: minute, lengthMinutes: 60 };
      await start({ update: { strategy: 'window', windows: [window], time_zone: 'UTC' } });
      await bringFirst();
      const second = await bringHalf();
      const { pinned } = await inRuntime();
      isBroken = false;
      clock.jump(2 * 3_600_000);
      await loseDatabase();
      await become({ '1.1.0': 'proven', '1.2.0': 'activated' });
      expect(await underTag(OWN)).toContain(second.pods.api);
      expect((await inRuntime()).pinned).toEqual(pinned);
    });
  },
);

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import Database from 'better-sqlite3';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { ComponentSoak, Soak } from '../../../../src/domain/state/release-record.ts';
import { programLayer } from '../../../support/bundles/program-image.ts';
import type { SampleLayer } from '../../../support/bundles/sample-image.ts';
import {
  createDaemonHarness,
  type DaemonHarness,
  type SettingsOverrides,
} from '../../../support/daemon/daemon-harness.ts';
import {
  bringRelease,
  makeRunningRelease,
  phasesOf,
  type RunningRelease,
  untilPhases,
} from '../../../support/daemon/running-release.ts';
import { type Containerd, startContainerd } from '../../../support/daemon/runtimes/containerd.ts';
import { eventually } from '../../../support/eventually.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { createPods, type Pods } from '../../../support/pods/pods.ts';
import { have } from '../../../support/requirements.ts';

const SOAK_MS = 1_000;
/** Long enough that no test sees the end of it. */
const FOREVER_MS = 3_600_000;
const PATIENCE_MS = 60_000;

const podsProto = fileURLToPath(new URL('../../../support/pods', import.meta.url));

/** Real containers of real containerd; what is read from it is what the design builds on. */
describe.runIf(have('root', 'mmdebstrap'))('releases with containers of containerd', { timeout: 180_000 }, () => {
  let program: SampleLayer;
  let containerd: Containerd;
  let harness: DaemonHarness;
  let pods: Pods;
  const factory = folderForEach();

  beforeAll(async () => {
    program = await programLayer();
  });
  beforeEach(async () => {
    containerd = await startContainerd({ withContainers: true });
    pods = createPods({ socketPath: containerd.socketPath, protoRoot: podsProto });
  });
  afterEach(async () => {
    await harness?.dispose();
    pods?.close();
    await containerd?.stop();
  });

  const prepare = async (lifecycle: SettingsOverrides['lifecycle'] & object): Promise<void> => {
    const runtime = { kind: 'containerd', socket: containerd.socketPath } as const;
    harness = await createDaemonHarness({ settings: { runtime, lifecycle } });
    await harness.start();
  };
  const release = (sequence: number): Promise<RunningRelease> =>
    makeRunningRelease(sequence, program, { dir: factory, keys: [harness.key] });

  const phases = () => phasesOf(harness);
  const become = (wanted: Readonly<Record<string, string>>) => untilPhases(harness, wanted);
  const bring = (bundle: RunningRelease) => bringRelease(harness, bundle);
  const isThere = async ({ contents }: RunningRelease) => {
    const images = await harness.images();
    const listed = new Map(images.flatMap(({ repoDigests, pinned }) => repoDigests.map((name) => [name, pinned])));
    return Object.fromEntries(
      contents.images.map(({ component = '', reference }) => [
        component,
        listed.has(reference) ? (listed.get(reference) ? 'pinned' : 'unpinned') : 'gone',
      ]),
    );
  };
  /** What is stored of the soak of the first release, by component. */
  const soaks = (): Readonly<Record<string, ComponentSoak>> => {
    const database = new Database(join(harness.base, 'state/state.db'), { readonly: true });
    try {
      const stored = database.prepare<[], string | null>('SELECT soak FROM bundle').pluck().get();
      const { components } = JSON.parse(stored ?? '{"components":[]}') as Pick<Soak, 'components'>;
      return Object.fromEntries(components.map((entry) => [entry.component, entry]));
    } finally {
      database.close();
    }
  };
  const imagesEnv = () => readFileSync(join(harness.base, 'run/images.env'), 'utf8');

  /** The daemon's test pull takes a pin away for a moment (docs/runtime-facts.md, fact 22). */
  const there = (one: Parameters<typeof isThere>[0], images: Awaited<ReturnType<typeof isThere>>) =>
    expect.poll(() => isThere(one), { timeout: PATIENCE_MS }).toEqual(images);

  it('proves a release, keeps the previous one, removes the one before that, and rolls back', async () => {
    await prepare({ soak: SOAK_MS });
    const [a, b, c] = [await release(1), await release(2), await release(3)];
    await bring(a);
    expect(phases()).toEqual({ '1.1.0': 'activated' });
    await pods.sync(a.pods);
    await become({ '1.1.0': 'proven' });
    await expect.poll(imagesEnv, { timeout: PATIENCE_MS }).toContain(`STICKPIN_ETCD=${a.pods.etcd}\n`);

    await bring(b);
    expect(phases()).toEqual({ '1.1.0': 'proven', '1.2.0': 'activated' });
    await pods.sync(b.pods);
    await become({ '1.1.0': 'superseded', '1.2.0': 'proven' });
    await there(a, { etcd: 'pinned', api: 'pinned', tools: 'pinned' });

    await bring(c);
    await pods.sync(c.pods);
    await become({ '1.1.0': 'retired', '1.2.0': 'superseded', '1.3.0': 'proven' });
    const gone = { etcd: 'gone', api: 'gone', tools: 'pinned' };
    await there(a, gone);
    await there(b, { etcd: 'pinned', api: 'pinned', tools: 'pinned' });
    await expect.poll(imagesEnv, { timeout: PATIENCE_MS }).toContain(`STICKPIN_API=${c.pods.api}\n`);
    expect(await containerd.ctr('images', 'ls', '-q')).toContain('registry.k8s.io/pause');

    await containerd.restart();
    await pods.sync(c.pods);
    await become({ '1.1.0': 'retired', '1.2.0': 'superseded', '1.3.0': 'proven' });
    await there(a, gone);
    // It is refused until the daemon has found containerd again.
    await eventually(() => harness.engine.commands.rollback({ stream: '' }), PATIENCE_MS);
    await become({ '1.1.0': 'retired', '1.2.0': 'activated', '1.3.0': 'proven' });
    await pods.sync(b.pods);
    await become({ '1.1.0': 'retired', '1.2.0': 'proven', '1.3.0': 'superseded' });
    await expect.poll(imagesEnv, { timeout: PATIENCE_MS }).toContain(`STICKPIN_API=${b.pods.api}\n`);
  });

  it('keeps the soak of each component over a restart of the daemon, and starts it again with the container', async () => {
    await prepare({ soak: FOREVER_MS });
    const a = await release(1);
    await bring(a);
    await pods.sync(a.pods);
    await become({ '1.1.0': 'active' });
    const running = () => Object.values(soaks()).filter(({ runs }) => runs.length > 0);
    await expect.poll(running, { timeout: PATIENCE_MS }).toHaveLength(2);
    const before = soaks();

    await harness.stop();
    const containerId = await pods.restart('etcd');
    await harness.start();
    await expect.poll(() => soaks().etcd?.runs, { timeout: PATIENCE_MS }).toMatchObject([{ containerId }]);
    const after = soaks();
    expect(after.api).toEqual(before.api);
    expect(after.etcd?.disturbedMs).toBeGreaterThan(before.api?.runs[0]?.sinceMs ?? Number.NaN);

    await containerd.restart();
    await become({ '1.1.0': 'activated' });
    await pods.sync(a.pods);
    await become({ '1.1.0': 'active' });
  });

  it('marks a release as rolled back when the previous one runs again, and does not activate it again automatically', async () => {
    await prepare({ soak: SOAK_MS, require: ['etcd', 'operator'] });
    const [a, b] = [await release(1), await release(2)];
    await bring(a);
    await pods.sync(a.pods);
    await become({ '1.1.0': 'active' });
    await bring(b);
    await pods.sync(b.pods);
    await become({ '1.1.0': 'activated', '1.2.0': 'active' });
    expect(harness.report().status).toMatch(/waits for operator to run/);
    await pods.sync(a.pods);
    const newer = () => harness.report().bundles.find(({ version }) => version === '1.2.0');
    harness.engine.kick();
    await expect.poll(() => newer()?.reason?.code, { timeout: PATIENCE_MS }).toBe('engine/rolled-back');
    expect(newer()?.phase).toBe('activated');
    await there(b, { etcd: 'pinned', api: 'pinned', tools: 'pinned' });
  });
});

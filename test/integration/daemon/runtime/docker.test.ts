import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
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
import { type DockerEngine, startDockerEngine } from '../../../support/daemon/runtimes/docker-engine.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { have } from '../../../support/requirements.ts';

const PATIENCE_MS = 60_000;

/** Units of a switch that start `docker run …:TAG`, on a node without a kubelet. */
describe.runIf(have('root', 'mmdebstrap')).each(['Docker 20.10', 'Docker 26, containerd store', 'Podman'] as const)(
  'the daemon with %s',
  { timeout: 180_000 },
  (kind) => {
    let program: SampleLayer;
    let engine: DockerEngine;
    let harness: DaemonHarness;
    const factory = folderForEach();

    beforeAll(async () => {
      program = await programLayer();
    });
    beforeEach(async () => {
      engine = await startDockerEngine(kind);
    });
    afterEach(async () => {
      await harness?.dispose();
      await engine?.stop();
    });

    const prepare = async (settings: SettingsOverrides): Promise<void> => {
      const runtime = { kind: kind === 'Podman' ? 'podman' : 'docker', socket: engine.socketPath } as const;
      harness = await createDaemonHarness({ settings: { ...settings, runtime } });
      await harness.start();
    };
    const release = (sequence: number): Promise<RunningRelease> =>
      makeRunningRelease(sequence, program, { dir: factory, keys: [harness.key] });
    const phases = () => phasesOf(harness);
    const become = (wanted: Readonly<Record<string, string>>) => untilPhases(harness, wanted);
    const bring = (bundle: RunningRelease) => bringRelease(harness, bundle);
    /** The names are those of the tags; the containers of the units are made anew. */
    const runAll = async ({ contents }: RunningRelease) => {
      for (const { component = '', tags } of contents.images.filter((image) => image.component !== 'tools')) {
        await engine.api('DELETE', `/containers/${component}?force=1`).catch(() => undefined);
        const body = { Image: tags[0], HostConfig: { NetworkMode: 'none' } };
        await engine.api('POST', `/containers/create?name=${component}`, body);
        await engine.api('POST', `/containers/${component}/start`);
      }
    };
    const pinsOf = async ({ contents }: RunningRelease) => {
      const images = await harness.images();
      const listed = new Map(images.flatMap(({ repoDigests, pinned }) => repoDigests.map((name) => [name, pinned])));
      return contents.images.map(({ reference }) => listed.get(reference) ?? 'gone');
    };

    // Podman's ids and names are those of Docker's classic store.
    if (kind !== 'Podman') {
      it('loads, pins, activates, proves and retires releases, and rolls back', async () => {
        await prepare({ lifecycle: { soak: 500 } });
        const [a, b, c] = [await release(1), await release(2), await release(3)];
        await bring(a);
        expect(await pinsOf(a)).toEqual([true, true, true]);
        await runAll(a);
        await become({ '1.1.0': 'proven' });
        await bring(b);
        expect(phases()).toEqual({ '1.1.0': 'proven', '1.2.0': 'activated' });
        await runAll(b);
        await become({ '1.1.0': 'superseded', '1.2.0': 'proven' });
        await bring(c);
        await runAll(c);
        await become({ '1.1.0': 'retired', '1.2.0': 'superseded', '1.3.0': 'proven' });
        await expect.poll(() => pinsOf(a), { timeout: PATIENCE_MS }).toEqual(['gone', 'gone', true]);
        expect(await pinsOf(b)).toEqual([true, true, true]);
        await harness.engine.commands.rollback({ stream: '' });
        await become({ '1.1.0': 'retired', '1.2.0': 'activated', '1.3.0': 'proven' });
        await runAll(b);
        await become({ '1.1.0': 'retired', '1.2.0': 'proven', '1.3.0': 'superseded' });
        expect(harness.report().conditions[0]).toMatchObject({ status: 'Unknown', reason: 'NoMirrors' });
      });
    }

    it('loads again from kept layers what a clean-up of the whole system took', async () => {
      await prepare({ retention: { blobs: 'kept' } });
      const a = await release(1);
      await bring(a);
      await engine.api('POST', '/containers/prune');
      const filters = encodeURIComponent(JSON.stringify({ dangling: ['false'] }));
      await engine.api('POST', `/images/prune?filters=${filters}`);
      await expect.poll(() => pinsOf(a), { timeout: PATIENCE_MS }).toEqual([true, true, true]);
      await become({ '1.1.0': 'activated' });
    });
  },
);

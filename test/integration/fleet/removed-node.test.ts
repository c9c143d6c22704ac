import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../support/eventually.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { networking } from '../../support/fleet/namespaces.ts';
import { RealCluster } from '../../support/fleet/real-cluster.ts';
import { have } from '../../support/requirements.ts';

const VERSION = '1.0.1';

/** The real programs. worker-3 has a valid certificate and writes what it likes into its Node. */
describe.runIf(have('root', 'openssl', 'dbus-daemon', ...networking))('a node that was removed', () => {
  const folder = folderForEach();
  let cluster: RealCluster;

  beforeEach(async () => {
    cluster = await RealCluster.start(folder);
  }, 120_000);
  afterEach(() => cluster[Symbol.asyncDispose]());

  it('is not waited for, not read and not served', async () => {
    for (const host of [1, 2, 3]) await cluster.add(host);
    const pause = {
      ...{ id: 'a'.repeat(12), name: 'ocp', node: 'worker-3', by: 'uid 0', why: 'no reason' },
      ...{ at: new Date().toISOString(), until: new Date(Date.now() + 6 * 24 * 3_600_000).toISOString() },
    };
    const status = { version: 1, releases: [], pauses: [pause] };
    cluster.server.setByOther('worker-3', { annotations: { 'stickpin.io/status': JSON.stringify(status) } });
    const bundle = cluster.createBundle(VERSION, { maxUnavailable: 2, settleSeconds: 0 });
    cpSync(bundle, join(cluster.node(1).stick, 'bundle'), { recursive: true });
    for (const host of [1, 2]) cluster.node(host).start();
    const holdOf = (host: number) => cluster.release(host, VERSION)?.activationHolds?.[0];
    for (const host of [1, 2]) {
      await eventually(
        () => expect(holdOf(host)?.message).toContain('its roll-out was paused on worker-3 until'),
        120_000,
      );
    }

    for (const host of [1, 2]) {
      cluster.node(host).configure('peers = ["10.77.0.1", "10.77.0.2"]\nexclude = ["worker-3"]');
      await cluster.restart(host);
    }
    await eventually(() => {
      const states = [1, 2].map((host) => [cluster.release(host, VERSION)?.activatedAt !== undefined, holdOf(host)]);
      expect(states).toEqual([
        [true, undefined],
        [true, undefined],
      ]);
    }, 120_000);
    expect([1, 2].flatMap((host) => cluster.node(host).report()?.pauses)).toEqual([]);

    cluster.node(3).start();
    await eventually(() => {
      const lines = cluster.node(1).log.fleet.join('\n');
      expect(lines).toContain('is refused: it is worker-3, and fleet.exclude has worker-3');
    }, 60_000);
    expect(cluster.release(3, VERSION)).toBeUndefined();
  }, 400_000);
});

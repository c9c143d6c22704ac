import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../support/eventually.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { networking } from '../../support/fleet/namespaces.ts';
import { RealCluster } from '../../support/fleet/real-cluster.ts';
import { have } from '../../support/requirements.ts';

const VERSION = '1.0.1';

/** The real programs, from the command line to the daemon of another node. */
describe.runIf(have('root', 'openssl', 'dbus-daemon', ...networking))('a roll-out', () => {
  const folder = folderForEach();
  let cluster: RealCluster;

  beforeEach(async () => {
    cluster = await RealCluster.start(folder);
  }, 120_000);
  afterEach(() => cluster[Symbol.asyncDispose]());

  const plugInto = (host: number, bundle: string) =>
    cpSync(bundle, join(cluster.node(host).stick, 'bundle'), { recursive: true });
  const activatedAt = (host: number) => cluster.release(host, VERSION)?.activatedAt;
  const isHeld = (host: number, code: string, text = '') =>
    eventually(() => {
      const [hold, ...others] = cluster.release(host, VERSION)?.activationHolds ?? [];
      expect([hold?.code, hold?.message, others]).toEqual([code, expect.stringContaining(text), []]);
    }, 120_000);
  const isActivated = (host: number) =>
    eventually(() => {
      if (activatedAt(host) !== undefined) return;
      const { activationHolds: holds, phase } = cluster.release(host, VERSION) ?? {};
      throw new Error(`worker-${host} has not activated it: ${JSON.stringify({ phase, holds })}`);
    }, 120_000);
  const eventsOf = (name: string) =>
    cluster.server.events
      .filter(({ involvedObject }) => involvedObject.name === name)
      .map(({ reason, message }) => `${reason}: ${message}`);

  it('is paused on one node, over restarts and forged lifts, and goes on from the control plane', async () => {
    await cluster.add(1);
    await cluster.add(2, { labels: { 'node-role.kubernetes.io/control-plane': '' } });
    plugInto(1, cluster.createBundle(VERSION, { maxUnavailable: 2, settleSeconds: 0 }));
    cluster.node(1).start();
    // Nobody activates it before worker-2 has it.
    await isHeld(1, 'fleet/not-ready', 'worker-2');
    const pause = (release: string) => cluster.stickpin(1, 'fleet', 'pause', release, '--why', 'no \u001b[2Jpower\n');
    await expect(pause('ocp@9.9.9')).rejects.toThrow(`so nothing is paused; known are ocp@${VERSION}`);
    const said = await pause(`ocp@${VERSION}`);
    const [, id = ''] = /'stickpin fleet resume ([0-9a-f]{12})' on this node/.exec(said) ?? [];
    cluster.node(2).start();
    for (const host of [1, 2]) await isHeld(host, 'fleet/paused', `worker-1 until`);
    await eventually(
      () => expect(cluster.node(1).report()?.status).toMatch(/\(F-34\).* on worker-1 until .*'stickpin fleet resume /),
      60_000,
    );
    await eventually(() => {
      const paused = eventsOf('worker-1').filter((text) => text.startsWith('RollOutPaused'));
      expect(paused).toEqual([expect.stringMatching(new RegExp(`ocp ${VERSION} .*no \\[2Jpower.*resume ${id}`))]);
      const written = (name: string) => cluster.server.node(name).metadata.annotations['stickpin.io/status'] ?? '';
      expect(JSON.parse(written('worker-1')).pauses).toMatchObject([{ id, node: 'worker-1', why: 'no [2Jpower' }]);
      expect(JSON.parse(written('worker-2')).pauses).toBeUndefined();
    }, 120_000);

    for (const host of [1, 2]) await cluster.restart(host);
    for (const host of [1, 2]) await isHeld(host, 'fleet/paused', id);

    // A node that was taken over writes what it likes into its own Node.
    const [real] = (await eventually(() => cluster.node(1).report()?.pauses ?? [], 60_000)).map(
      ({ from: _, liftedFrom: __, heard: ___, ...one }) => one,
    );
    const { bundleId = '' } = cluster.release(1, VERSION) ?? {};
    const forged = { ...real, id: 'a'.repeat(12), node: 'worker-2', until: new Date(Date.now() + 3_600_000 * 20) };
    const release = { name: 'ocp', version: VERSION, bundle: bundleId.slice(7, 23), phase: 'proven', current: true };
    const pauses = [{ ...real, lifted: { node: 'worker-1', by: 'uid 0' } }, forged];
    await cluster.add(3);
    const status = JSON.stringify({ version: 1, releases: [release], pauses });
    cluster.server.setByOther('worker-3', { annotations: { 'stickpin.io/status': status } });
    for (const host of [1, 2]) await isHeld(host, 'fleet/paused', 'worker-2, as worker-3 says, until');
    for (const host of [1, 2]) {
      const known = cluster
        .node(host)
        .report()
        ?.pauses.map(({ node, lifted }) => [node, lifted]);
      expect(known?.sort()).toEqual([
        ['worker-1', undefined],
        ['worker-2', undefined],
      ]);
    }
    await expect(cluster.stickpin(1, 'fleet', 'resume', forged.id)).rejects.toThrow('counts only on that node');
    expect([1, 2].map(activatedAt)).toEqual([undefined, undefined]);

    const lifted = await cluster.stickpin(2, 'fleet', 'resume', '--all');
    for (const one of [id, forged.id]) expect(lifted).toContain(`pause ${one} is lifted`);
    for (const host of [1, 2]) await isActivated(host);
    const history = (await cluster.stickpin(1, 'history', '--json')).replaceAll('\\', '');
    for (const line of [
      `by uid 0 on worker-1: no [2Jpower (${id})`,
      `by uid 0 on worker-2, as worker-3 says: no [2Jpower (${forged.id})`,
      `pause ${id} (uid 0 on worker-1: no [2Jpower) is lifted by uid 0 on worker-2`,
      `pause ${forged.id} (uid 0 on worker-2, as worker-3 says: no [2Jpower) is lifted by uid 0 on worker-2`,
    ]) {
      expect(history).toContain(line);
    }
  }, 400_000);

  it('goes to one that is not Ready first, and to others while no more than its order allows are unavailable', async () => {
    for (const host of [1, 2, 3, 4]) {
      await cluster.add(host, host <= 2 ? { other: '[update]\nstrategy = "manual"' } : {});
    }
    cluster.server.setReady('worker-4', false);
    plugInto(2, cluster.createBundle(VERSION, { maxUnavailable: '50%', settleSeconds: 0 }));
    for (const host of [1, 2, 3, 4]) cluster.node(host).start();
    await isActivated(4);
    await isHeld(3, 'fleet/order', 'worker-1');

    await cluster.stickpin(1, 'activate', `ocp@${VERSION}`);
    await isHeld(3, 'fleet/order', 'worker-2');
    expect([2, 3].map(activatedAt)).toEqual([undefined, undefined]);
    cluster.server.setReady('worker-4', true);
    await isActivated(3);

    await cluster.stickpin(2, 'activate', `ocp@${VERSION}`);
    await isActivated(2);
  }, 400_000);

  it('stops at a node that activated it and is not Ready', async () => {
    for (const host of [1, 2]) await cluster.add(host);
    plugInto(2, cluster.createBundle(VERSION, { settleSeconds: 30 }));
    for (const host of [1, 2]) cluster.node(host).start();
    await isActivated(1);
    cluster.server.setReady('worker-1', false);
    await isHeld(2, 'fleet/unavailable', 'worker-1 is not Ready');
    cluster.server.setReady('worker-1', true);
    await isHeld(2, 'fleet/settle', 'worker-1 has run it and has been Ready for 30 s');
    await isActivated(2);
  }, 400_000);
});

import { mkdirSync, mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { BundleId } from '../../../src/domain/model/digest.ts';
import { fleetPaths } from '../../../src/fleet/wire/documents.ts';
import { PEER_BUDGET } from '../../../src/fleet/wire/peer-budgets.ts';
import { createOffersHandler, type SocketServer, serveSocket } from '../../../src/fleet/wire/server.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { silentLog } from '../../../src/platform/log.ts';
import { makeSampleBundle, ocpImages, sampleKey } from '../../support/bundles/sample-bundle.ts';
import { digestOf } from '../../support/bundles/sample-image.ts';
import { createDaemonHarness, type DaemonHarness } from '../../support/daemon/daemon-harness.ts';
import { eventually } from '../../support/eventually.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { createFleetDouble, type FleetDouble } from '../../support/fleet/fleet-double.ts';
import { createMemoryOffers, type MemoryOffers } from '../../support/fleet/memory-offers.ts';

const key = sampleKey('factory-2026');
const folder = folderForEach();
let fleet: FleetDouble;
let harnesses: DaemonHarness[];
let rogue: { readonly offers: MemoryOffers; readonly reads: string[]; readonly server: SocketServer };

/** A daemon that takes part in the fleet. */
async function node(name: string): Promise<DaemonHarness> {
  const harness = await createDaemonHarness({ keys: [key], settings: { fleet: { enabled: true, activate: 'each' } } });
  harnesses.push(harness);
  await harness.start();
  await fleet.join(name, harness.settings.paths);
  return harness;
}

beforeEach(async () => {
  fleet = createFleetDouble();
  harnesses = [];
  const paths = { run_dir: mkdtempSync(join(folder, 'r-')), state_dir: mkdtempSync(join(folder, 's-')) };
  const offers = createMemoryOffers();
  const reads: string[] = [];
  const file: MemoryOffers['file'] = async (bundleId) => {
    reads.push(bundleId);
    return Buffer.from('no envelope');
  };
  mkdirSync(paths.run_dir, { recursive: true });
  const server = await serveSocket(
    fleetPaths(paths).offersSocket,
    createOffersHandler({ ...offers, file }, systemClock, silentLog),
  );
  rogue = { offers, reads, server };
  await fleet.join('worker-9', paths);
});
afterEach(async () => {
  await Promise.all(harnesses.map((harness) => harness.dispose()));
  await fleet.dispose();
  await rogue.server.close();
});

/** Offers so many bundles that nobody has seen. */
function offerNew(count: number): void {
  rogue.offers.bundles.clear();
  for (let at = 0; at < count; at += 1) {
    const bundleId = digestOf(`bogus ${Math.random()}`) as BundleId;
    const offered = { bundleId, name: 'ocp', version: `99.0.${at}`, sequence: 99, isWhole: true, revision: 'r' };
    rogue.offers.bundles.set(bundleId, { offered, files: new Map() });
  }
  rogue.offers.changed();
}

const isLeftOut = (harness: DaemonHarness) =>
  harness.report().rejected.some(({ reason }) => reason.code === 'fleet/left-out');
const linesAbout = ({ log }: DaemonHarness, peer: string) =>
  log.lines.filter(({ level, message }) => level === 'warn' && message.includes(peer));

it('is left out after a few bundles that are none, with few lines, and none of them is history', async () => {
  const victim = await node('worker-1');
  await eventually(async () => {
    offerNew(1_000);
    await victim.rounds();
    expect(isLeftOut(victim)).toBe(true);
  }, 60_000);
  const { rejected, media } = victim.report();
  expect(media.filter(({ medium }) => medium === 'worker-9')).toHaveLength(1);
  expect(rejected).toMatchObject([{ medium: 'worker-9', path: 'everything' }]);
  const reads = rogue.reads.length;
  const lines = linesAbout(victim, 'worker-9').length;
  for (let time = 0; time < 5; time += 1) {
    offerNew(1_000);
    await victim.rounds();
  }
  expect(rogue.reads).toHaveLength(reads);
  expect(new Set(rogue.reads).size).toBeLessThanOrEqual(PEER_BUDGET.bundle.perMinute);
  expect(linesAbout(victim, 'worker-9')).toHaveLength(lines);
  expect(lines).toBeLessThanOrEqual(PEER_BUDGET.refusal.perMinute + 10);
  const last = linesAbout(victim, 'worker-9').at(-1)?.message;
  expect(last).toMatch(
    /^Rejected everything on worker-9: it had more than \d+ .* so nothing is taken from it for 1 min$/,
  );
  expect(victim.history('bundleRejected')).toEqual([]);
}, 120_000);

it('keeps nobody from taking a good bundle from another node', async () => {
  offerNew(1_000);
  const [first, victim] = [await node('worker-1'), await node('worker-2')];
  const images = ocpImages(['etcd'], { tag: '4.13.7' });
  const good = await makeSampleBundle({ dir: folder, keys: [key], images, schedule: 'manual' });
  first.plug(good.path);
  await victim.until(({ bundles }) => bundles[0]?.phase === 'ready', 60_000);
}, 120_000);

import { mkdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { FleetNode } from '../../../src/domain/fleet/node-status.ts';
import type { Phase } from '../../../src/domain/model/condition.ts';
import { type Digest, hexOf } from '../../../src/domain/model/digest.ts';
import type { StatusReport } from '../../../src/domain/report/status-schema.ts';
import { nodeStatusOf } from '../../../src/fleet/publish/node-status.ts';
import { parseOwnReport } from '../../../src/fleet/publish/own-report.ts';
import { fleetPaths } from '../../../src/fleet/wire/documents.ts';
import {
  hostArch,
  makeSampleBundle,
  ocpImages,
  type SampleBundle,
  sampleKey,
} from '../../support/bundles/sample-bundle.ts';
import { digestOf, sampleArtifact, seededBytes } from '../../support/bundles/sample-image.ts';
import { makeSpreadBundle } from '../../support/bundles/spread-bundle.ts';
import { createDaemonHarness, type DaemonHarness, type HarnessOptions } from '../../support/daemon/daemon-harness.ts';
import { createStickGate, type StickGate } from '../../support/daemon/stick-gate.ts';
import { eventually } from '../../support/eventually.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { type BlobTrick, busyTrick, createFleetDouble, type FleetDouble } from '../../support/fleet/fleet-double.ts';

const MIB = 1024 * 1024;
const key = sampleKey('factory-2026');

const factory = folderForEach();
let fleet: FleetDouble;
let harnesses: DaemonHarness[];
let bundle: SampleBundle;

beforeEach(async () => {
  fleet = createFleetDouble();
  harnesses = [];
  bundle = await makeSampleBundle({ dir: factory, keys: [key], images: images(), schedule: 'manual' });
});
afterEach(async () => {
  await Promise.all(harnesses.map((harness) => harness.dispose()));
  await fleet.dispose();
});

/** Two images, each with a layer of 4 MiB. */
function images() {
  return ocpImages(['etcd', 'api'], { tag: '4.13.7', sizeBytes: 4 * MIB });
}

/** A daemon that takes part in the fleet. */
async function node(name: string, options: HarnessOptions = {}): Promise<DaemonHarness> {
  const harness = await createDaemonHarness({
    keys: [key],
    ...options,
    settings: { ...options.settings, fleet: { enabled: true, activate: 'each', ...options.settings?.fleet } },
  });
  harnesses.push(harness);
  await harness.start();
  await fleet.join(name, harness.settings.paths);
  return harness;
}

const isReady = (report: StatusReport) => report.bundles[0]?.phase === 'ready';
/** Plugs the stick in, and waits until the release is ready. */
const load = (harness: DaemonHarness) => {
  harness.plug(bundle.path);
  return harness.until(isReady, 60_000);
};
const layers = () => bundle.contents.layers.map(({ digest }) => digest);
/** Bytes of layers that a node took from another one. */
const takenBytes = (from: string, of: string) =>
  fleet.asked
    .filter((one) => one.from === from && one.of === of && layers().some((digest) => digest === one.digest))
    .reduce((sum, { sentBytes }) => sum + sentBytes, 0);
/** Busy for whoever asks for a layer; documents are given. */
const busyForLayers = (busy: Parameters<typeof busyTrick>[0]): BlobTrick => {
  const trick = busyTrick(busy);
  return (asked, request) => layers().some((digest) => digest === asked.digest) && trick(asked, request);
};
const layerBytes = () => bundle.contents.layers.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);

describe('one stick in one node', () => {
  it('makes all nodes ready, and the others name where it comes from', async () => {
    const [first, second, third] = [await node('worker-1'), await node('worker-2'), await node('worker-3')];
    first.plug(bundle.path);
    for (const harness of [first, second, third]) await harness.until(isReady, 60_000);
    for (const harness of [second, third]) {
      expect((await harness.images()).flatMap(({ repoDigests }) => repoDigests).sort()).toEqual(
        bundle.contents.images.map(({ reference }) => reference).sort(),
      );
      expect(harness.statuses.join('\n')).toMatch(/ocp 4\.13\.7 (on|from) worker-1/);
    }
    expect(takenBytes('worker-2', 'worker-1') + takenBytes('worker-2', 'worker-3')).toBe(layerBytes());
    expect(statSync(fleetPaths(first.settings.paths).offersSocket).mode & 0o777).toBe(0o600);
  }, 150_000);

  it('brings artifacts too, and what one node lost of them comes from another', async () => {
    const weights = seededBytes('weights', 3 * MIB);
    const artifacts = [
      { reference: 'models.example.com/small:v1', image: sampleArtifact({ files: { 'weights.bin': weights } }) },
    ];
    bundle = await makeSampleBundle({ dir: factory, version: '4.13.8', keys: [key], images: images(), artifacts });
    const [first, second] = [await node('worker-1'), await node('worker-2')];
    first.plug(bundle.path);
    const isWhole = ({ bundles }: StatusReport) =>
      bundles[0]?.artifacts?.present === 1 && bundles[0].images.present === 2;
    for (const harness of [first, second]) await harness.until(isWhole, 60_000);
    await first.takeOut();
    await first.stop();
    rmSync(join(first.base, 'state/blobs/layers', hexOf(digestOf(weights) as Digest)));
    await first.start();
    await first.until(({ bundles }) => bundles[0]?.artifacts?.present === 0);
    await first.until(isWhole, 60_000);
  }, 90_000);

  it('is no medium any more once all is there, and nothing is asked again', async () => {
    const [first, second] = [await node('worker-1'), await node('worker-2')];
    first.plug(bundle.path);
    const report = await second.until(
      (now) => isReady(now) && !now.media.some((one) => one.medium === 'worker-1'),
      60_000,
    );
    expect(report.bundles[0]?.media).toEqual([]);
    const asked = fleet.asked.length;
    await second.rounds();
    await first.rounds();
    expect(fleet.asked).toHaveLength(asked);
  }, 150_000);

  it('gives nothing of streams that are excepted, and nothing at all when told so', async () => {
    const first = await node('worker-1', { settings: { fleet: { except: ['ocp'] } } });
    const second = await node('worker-2', { settings: { fleet: { serve: false } } });
    const third = await node('worker-3');
    await load(first);
    await load(second);
    await third.rounds();
    expect(third.report().bundles).toEqual([]);
    expect(fleet.asked).toEqual([]);
  }, 150_000);

  it('does not take what its own keys do not allow', async () => {
    const first = await node('worker-1');
    const second = await node('worker-2', { keys: [sampleKey('other-2026')] });
    await load(first);
    const report = await second.until(({ rejected }) => rejected.length > 0, 60_000);
    expect(report.rejected[0]).toMatchObject({ medium: 'worker-1', reason: { code: 'bundle/unknown-key' } });
    expect(report.bundles).toEqual([]);
  }, 150_000);
});

describe('the socket for other nodes', () => {
  it('is opened later when it can not be opened now, and one line says so', async () => {
    const harness = await createDaemonHarness({ keys: [key], settings: { fleet: { enabled: true } } });
    harnesses.push(harness);
    const { offersSocket } = fleetPaths(harness.settings.paths);
    mkdirSync(join(offersSocket, 'in-the-way'), { recursive: true });
    await harness.start();
    const lines = () => harness.log.lines.map(({ message }) => message).filter((text) => text.includes(offersSocket));
    await eventually(() => expect(lines()).toHaveLength(1));
    expect(lines()[0]).toMatch(/can't be served: .*; other nodes get nothing from this one\. It is tried again$/);
    await harness.rounds();
    rmSync(offersSocket, { recursive: true });
    await eventually(() => expect(statSync(offersSocket).isSocket()).toBe(true), 20_000);
    await eventually(() =>
      expect(lines()).toEqual([
        expect.anything(),
        `${offersSocket} is served now: other nodes get bundles from this one`,
      ]),
    );
  }, 150_000);
});

describe('two sticks of a spread bundle', () => {
  it('in two nodes make all nodes ready: each takes what it lacks from where it is', async () => {
    const volumes = await makeSpreadBundle({ folder: factory, key, volumeBytes: 7 * MIB });
    expect(volumes).toHaveLength(2);
    const nodes = [await node('worker-1'), await node('worker-2'), await node('worker-3')];
    for (const [at, volume] of volumes.entries()) nodes[at]?.plug(volume);
    for (const harness of nodes) {
      const { bundles } = await harness.until((report) => report.bundles[0]?.readyAt !== undefined, 60_000);
      expect(bundles[0]?.images).toEqual({ total: 3, present: 3, pinned: 3 });
    }
    const bytes = (from: string, of: string) =>
      fleet.asked
        .filter((one) => one.from === from && one.of === of)
        .reduce((sum, { sentBytes }) => sum + sentBytes, 0);
    for (const [from, of] of [
      ['worker-1', 'worker-2'],
      ['worker-2', 'worker-1'],
    ] as const) {
      expect(bytes(from, of)).toBeGreaterThan(2 * MIB);
      expect(bytes(from, 'worker-3')).toBe(0);
    }
    expect(bytes('worker-3', 'worker-1')).toBeGreaterThan(2 * MIB);
    expect(bytes('worker-3', 'worker-2')).toBeGreaterThan(2 * MIB);
  }, 120_000);
});

describe('a bundle that was refused', () => {
  it('is read again from another node after its stream was reset', async () => {
    const newer = await makeSampleBundle({ dir: factory, keys: [key], version: '4.13.8', sequence: 8 });
    const second = await node('worker-2');
    second.plug(newer.path);
    await second.until(isReady, 60_000);
    second.unplug();
    await second.until(({ bundles }) => bundles[0]?.activatedAt !== undefined, 60_000);
    const first = await node('worker-1');
    await load(first);
    await second.rounds();
    expect(second.report().bundles).toHaveLength(1);
    await second.daemon().resetStream('ocp', undefined);
    await second.until(({ bundles }) => bundles.some(({ version }) => version === '4.13.7'), 60_000);
  }, 90_000);

  it('is left alone, until what is adopted or trusted has changed', async () => {
    const arch = hostArch === 'arm64' ? 'amd64' : 'arm64';
    const foreign = await makeSampleBundle({ dir: factory, keys: [key], name: 'edge', version: '1.0.0', arch });
    const [first, second] = [await node('worker-1'), await node('worker-2')];
    const isRefused = ({ rejected }: StatusReport) => rejected.some(({ reason }) => reason.code === 'bundle/arch');
    // It offers what it verified, also for nodes of another kind. The second one forgets it at
    // once.
    const refused = second.until(isRefused, 60_000);
    first.plug(foreign.path);
    await first.until(isRefused, 60_000);
    await refused;
    await second.until((report) => !isRefused(report) && report.media.every(({ medium }) => medium !== 'worker-1'));
    const refusedAgain = second.until(isRefused, 60_000);
    second.plug(bundle.path);
    await refusedAgain;
    await second.until((report) => !isRefused(report), 60_000);
  }, 90_000);
});

describe('a node that holds blobs', () => {
  it('gives them to a third one after the stick is gone', async () => {
    const first = await node('worker-1');
    const second = await node('worker-2', { settings: { retention: { blobs: 'kept' } } });
    first.plug(bundle.path);
    await second.until(isReady, 60_000);
    fleet.leave('worker-1');
    const third = await node('worker-3');
    await third.until(isReady, 60_000);
    expect(takenBytes('worker-3', 'worker-2')).toBe(layerBytes());
  }, 150_000);
});

describe('the stick', () => {
  it('is read once when the node that has it keeps layers', async () => {
    const gate = createStickGate();
    const kept = { retention: { blobs: 'kept' } } as const;
    const first = await node('worker-1', { settings: kept, watchBundle: gate.watchBundle });
    await load(first);
    const second = await node('worker-2');
    await second.until(isReady, 60_000);
    for (const { digest, sizeBytes } of bundle.contents.layers) expect(gate.bytesRead(digest)).toBe(sizeBytes);
    expect(takenBytes('worker-2', 'worker-1')).toBe(layerBytes());
  }, 150_000);

  it('that is wanted is named, where other nodes run what nobody can give', async () => {
    const second = await node('worker-2');
    const release = { name: 'ocp', version: '4.13.7', bundle: bundle.bundleId.slice(7, 23), phase: 'proven' } as const;
    const status = { version: 1, releases: [{ ...release, current: true }] } as const;
    fleet.tell([{ name: 'worker-1', isAbsent: false, status }]);
    await second.until(({ status: line }) =>
      line.includes('ocp 4.13.7 is loaded on worker-1, and no node can give it. Plug its stick into any node.'),
    );
    const first = await node('worker-1');
    first.plug(bundle.path);
    await second.until(isReady, 60_000);
    expect(second.report().status).not.toMatch(/plug its stick/i);
  }, 150_000);
});

describe('the stick that others still load from', () => {
  const release = (phase: Phase) => ({ name: 'ocp', version: '4.13.7', bundle: bundle.bundleId.slice(7, 23), phase });
  const told = (name: string, phase?: Phase, isAbsent = false): FleetNode => {
    const releases = phase === undefined ? [] : [release(phase)];
    return { name, isAbsent, status: { version: 1, arch: hostArch, releases } };
  };
  const STAY = (count: number) => `${count} of 3 nodes still load from the stick.`;
  const others = (...nodes: readonly FleetNode[]) => fleet.tell([told('worker-1', 'ready'), ...nodes]);

  it('has to stay until all have loaded the release, gave it up or are absent', async () => {
    const first = await node('worker-1');
    others(told('worker-2'), told('worker-3', 'preloading'));
    first.plug(bundle.path);
    const isToStay = (count: number) => (report: StatusReport) => report.status.includes(STAY(count));
    await first.until((report) => isReady(report) && isToStay(2)(report), 60_000);
    expect(first.report().status).not.toMatch(/remove the stick/i);
    others(told('worker-2', 'preloading'), told('worker-3', 'ready'));
    await first.until(isToStay(1), 60_000);
    others(told('worker-2', 'preloading', true), told('worker-3', 'ready'));
    await first.until(({ status }) => /remove the stick/i.test(status), 60_000);
    others(told('worker-2', 'preloading'), told('worker-3', 'ready'));
    await first.until(isToStay(1), 60_000);
    others(told('worker-2', 'rejected'), told('worker-3', 'ready'));
    await first.until(({ status }) => /remove the stick/i.test(status), 60_000);
  }, 240_000);

  it('need not stay for a node that takes no bundle of its keys, as that node itself tells', async () => {
    const first = await node('worker-1');
    const second = await node('worker-2', { keys: [sampleKey('other-2026')] });
    others(told('worker-2'), told('worker-3', 'ready'));
    first.plug(bundle.path);
    await first.until((report) => isReady(report) && report.status.includes(STAY(1)), 60_000);
    await second.until(({ rejected }) => rejected.length > 0, 60_000);
    // The file comes after the report.
    const status = await eventually(() => {
      const written = readFileSync(join(second.settings.paths.run_dir, 'status.json'), 'utf8');
      const parsed = parseOwnReport(written);
      const own = parsed.kind === 'report' ? nodeStatusOf(parsed.report) : expect.unreachable();
      expect(own.rejects).toHaveLength(1);
      return own;
    });
    others({ name: 'worker-2', isAbsent: false, status }, told('worker-3', 'ready'));
    await first.until(({ status: line }) => /remove the stick/i.test(line), 60_000);
  }, 240_000);

  it('may go from a node that gives to others without it', async () => {
    const first = await node('worker-1', { settings: { retention: { blobs: 'kept' } } });
    others(told('worker-2', 'preloading'), told('worker-3'));
    first.plug(bundle.path);
    await first.until(({ status }) => /remove the stick/i.test(status), 60_000);
  }, 120_000);

  it('is wanted on a node that has begun, once it is gone', async () => {
    const [first, second] = [await node('worker-1'), await node('worker-2')];
    fleet.onBlob('worker-1', ({ digest }) => layers().includes(digest as Digest));
    await load(first);
    await second.until(({ bundles: [held] }) => held?.phase === 'preloading', 60_000);
    first.unplug();
    await second.until(({ status }) => status.includes('worker-1 stopped giving ocp 4.13.7'), 60_000);
    // While transfers of it still wait, the condition tells how far it is.
    await second.until(
      ({ bundles: [held] }) =>
        held?.conditions?.some(({ type, status, message }) =>
          isDeepStrictEqual(
            [type, status, message.includes('plug its stick into any node')],
            ['Preloaded', 'False', true],
          ),
        ) === true,
      60_000,
    );
  }, 240_000);

  it('is wanted on a node that had not begun, though nobody runs the release yet', async () => {
    const [first, second] = [await node('worker-1'), await node('worker-2', { keys: [sampleKey('other-2026')] })];
    await load(first);
    others(told('worker-2'));
    await second.rounds();
    expect(second.report().status).not.toMatch(/plug its stick/i);
    first.unplug();
    const { wanted } = await second.until(({ status }) => /plug its stick into any node/i.test(status), 60_000);
    expect(wanted).toMatchObject([{ name: 'ocp', version: '4.13.7', nodes: ['worker-1'] }]);
  }, 240_000);
});

describe('a peer that fails', () => {
  /** Holds the second node in the middle of its first layer. */
  async function inMidBlob(gate: StickGate, options: HarnessOptions = {}) {
    const first = await node('worker-1');
    const [digest] = layers();
    if (digest === undefined) throw new Error('no layer');
    await load(first);
    gate.hold(digest, MIB);
    const second = await node('worker-2', { watchBundle: gate.watchBundle, ...options });
    await gate.reached();
    return { first, second, digest };
  }

  it('in the middle of a blob is followed by another one, from the byte', async () => {
    const gate = createStickGate();
    const { second, digest } = await inMidBlob(gate);
    const third = await node('worker-3');
    await load(third);
    await second.until(({ media }) => media.some(({ medium, state }) => medium === 'worker-3' && state === 'read'));
    fleet.leave('worker-1');
    gate.release();
    await second.until(isReady, 60_000);
    const size = bundle.contents.layers[0]?.sizeBytes ?? 0;
    expect(gate.bytesRead(digest)).toBe(size);
    expect(gate.starts(digest)).toHaveLength(2);
    expect(gate.starts(digest)[1]).toBeGreaterThanOrEqual(MIB);
  }, 90_000);

  it('is waited for when it is the only one', async () => {
    const gate = createStickGate();
    const { second } = await inMidBlob(gate);
    fleet.leave('worker-1');
    gate.release();
    const report = await second.until(({ status }) => status.includes('worker-1'), 60_000);
    expect(report.status).not.toMatch(/plug it in again|Stick removed/i);
    const third = await node('worker-3');
    third.plug(bundle.path);
    await second.until(isReady, 60_000);
  }, 90_000);

  it('by sending nothing in the middle of a blob is left for another one', async () => {
    const [first, third] = [await node('worker-1'), await node('worker-3')];
    await load(first);
    let stalled = 0;
    fleet.onBlob('worker-1', ({ digest, response }) => {
      const layer = bundle.contents.layers.find((one) => one.digest === digest);
      if (layer === undefined) return false;
      stalled += 1;
      response.writeHead(200, { 'content-length': layer.sizeBytes });
      response.write(Buffer.alloc(10));
      return true;
    });
    const second = await node('worker-2');
    await eventually(() => expect(stalled).toBeGreaterThan(0), 60_000);
    third.plug(bundle.path);
    await second.until(isReady, 90_000);
    expect(takenBytes('worker-2', 'worker-3')).toBeGreaterThan(0);
  }, 120_000);

  it.each<[string, BlobTrick]>([
    ['with 404', ({ response }) => response.writeHead(404, { 'content-length': 0 }).end() && true],
    ['with an empty answer', ({ response }) => response.writeHead(200, { 'content-length': 0 }).end() && true],
  ])(
    '%s for layers that it lists is left for another one',
    async (_how, trick) => {
      const [first, third] = [await node('worker-1'), await node('worker-3')];
      for (const harness of [first, third]) {
        await load(harness);
      }
      fleet.onBlob('worker-1', (asked, request) =>
        layers().some((digest) => digest === asked.digest) ? trick(asked, request) : false,
      );
      const second = await node('worker-2');
      await second.until(isReady, 60_000);
      expect(takenBytes('worker-2', 'worker-3')).toBe(layerBytes());
    },
    120_000,
  );

  it('with wrong bytes is not believed, and another one is asked', async () => {
    const gate = createStickGate();
    const first = await node('worker-1');
    await load(first);
    for (const digest of layers()) gate.lie(digest, 1);
    const second = await node('worker-2', { watchBundle: gate.watchBundle });
    const third = await node('worker-3');
    await load(third);
    await second.until(isReady, 90_000);
    for (const digest of layers()) expect(gate.starts(digest).length).toBeGreaterThan(1);
  }, 120_000);
});

describe('a layer that the stick of another node can not give', () => {
  it('is named, while all others come from there, and is taken from the next node that has it', async () => {
    const gate = createStickGate();
    const [bad = ''] = layers();
    gate.spoilSector(bad as Digest, MIB);
    const first = await node('worker-1', { watchBundle: gate.watchBundle });
    first.plug(bundle.path);
    await first.until(({ bundles }) => bundles[0]?.images.present === 1, 60_000);
    const second = await node('worker-2');
    const named = `Blob ${bad} of etcd can't be read from worker-1: worker-1 can't give /v1/blobs/${bad}: ${bad} can't`;
    await second.until(({ bundles: [now] }) => now?.images.present === 1, 60_000);
    await eventually(() => {
      expect(second.log.lines.map(({ message }) => message).join('\n')).toContain(named);
    }, 60_000);
    const third = await node('worker-3');
    third.plug(bundle.path);
    await second.until(isReady, 90_000);
  }, 180_000);
});

describe('a peer that is busy', () => {
  it('is asked again in time, and STATUS tells the place', async () => {
    const first = await node('worker-1');
    await load(first);
    let isFree = false;
    fleet.onBlob(
      'worker-1',
      busyForLayers(() => (isFree ? undefined : { queue: { place: 2, waiting: 3, waitMs: 40_000 }, retryMs: 1_000 })),
    );
    const second = await node('worker-2');
    await eventually(() => {
      expect(second.statuses).toContain(
        'WAIT (F-06): Waiting for worker-1 to give ocp 4.13.7: place 2 of 3, about 40 s. 0/2 images are present.',
      );
    }, 60_000);
    const asked = fleet.asked.length;
    await eventually(() => expect(fleet.asked.length).toBeGreaterThan(asked), 10_000);
    isFree = true;
    await second.until(isReady, 60_000);
  }, 90_000);

  it('is waited for before anything of it is known', async () => {
    const first = await node('worker-1');
    await load(first);
    let isFree = false;
    const queue = { place: 1, waiting: 1, mostMs: 540_000 };
    fleet.onBlob(
      'worker-1',
      busyTrick(() => (isFree ? undefined : { queue, retryMs: 1_000 })),
    );
    const second = await node('worker-2');
    const waiting = 'Waiting for worker-1 to show its bundles: place 1 of 1, at most about 9 min.';
    await second.until(({ status }) => status.endsWith(waiting), 60_000);
    isFree = true;
    await second.until(isReady, 60_000);
  }, 90_000);

  it('is left for one that is free, and a stick for none of them', async () => {
    const [first, third] = [await node('worker-1'), await node('worker-3')];
    first.plug(bundle.path);
    third.plug(bundle.path);
    for (const harness of [first, third]) await harness.until(isReady, 60_000);
    fleet.onBlob(
      'worker-1',
      busyTrick(() => ({ retryMs: 60_000 })),
    );
    const second = await node('worker-2');
    await second.until(isReady, 60_000);
    expect(takenBytes('worker-2', 'worker-3')).toBe(layerBytes());
    const before = fleet.asked.length;
    const fourth = await node('worker-4', { settings: { media: {} } });
    fleet.onBlob(
      'worker-3',
      busyTrick(() => ({ retryMs: 60_000 })),
    );
    await load(fourth);
    expect(takenBytes('worker-4', 'worker-1') + takenBytes('worker-4', 'worker-3')).toBe(0);
    expect(fleet.asked.length).toBeGreaterThanOrEqual(before);
  }, 120_000);
});

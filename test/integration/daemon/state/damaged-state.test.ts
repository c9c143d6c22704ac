import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { makeSampleBundle, type SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage, sampleLayer } from '../../../support/bundles/sample-image.ts';
import type { DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { createContainerdNode } from '../../../support/daemon/runtimes/containerd-node.ts';
import { type CrioNode, createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { have } from '../../../support/requirements.ts';
import { trixieRoot } from '../../../support/rootfs/trixie-root.ts';
import { seededRandom } from '../../../support/seeded-random.ts';

/** Starts on each of the two runtimes. */
const STARTS = 100;
const FILES = ['state.db', 'state.db-wal'] as const;

/**
 * Two releases are activated, then the daemon starts again and again on state that was damaged at
 * random, with an older release plugged in.
 */
describe.runIf(have('root', 'mmdebstrap'))(`${STARTS} starts on a state that was damaged at random`, () => {
  let factory: string;
  let saved: string;
  let harness: DaemonHarness;
  let references: readonly string[];

  beforeAll(async () => {
    await trixieRoot();
  });
  beforeEach(() => {
    factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
    saved = join(factory, 'saved');
  });
  afterEach(() => rmSync(factory, { recursive: true, force: true }));

  const release = (sequence: number): Promise<SampleBundle> =>
    makeSampleBundle({
      dir: factory,
      version: `4.13.${sequence}`,
      sequence,
      keys: [harness.key],
      images: ['etcd', 'api'].map((name) => ({
        reference: `quay.example.com/ocp/${name}:4.13.${sequence}`,
        image: sampleImage({ seed: `${name}-${sequence}`, layers: [sampleLayer({ seed: `${name}-${sequence}` })] }),
      })),
    });
  const stateFile = (name: string) => join(harness.settings.paths.state_dir, name);
  const save = (label: string): void => {
    mkdirSync(join(saved, label), { recursive: true });
    for (const name of [...FILES, 'state.json', 'state.json.before', 'state.parts'])
      if (existsSync(stateFile(name))) cpSync(stateFile(name), join(saved, label, name), { recursive: true });
  };

  /**
   * Activates two releases. What is saved as `now` is what a SIGKILL leaves, with a log that is not
   * empty; `before` is from after the first release.
   */
  async function prepare(): Promise<void> {
    await harness.start();
    const bundles = [await release(8), await release(9)];
    for (const bundle of bundles) {
      harness.plug(bundle.path);
      await harness.until(
        (report) =>
          report.operation === 'idle' &&
          report.bundles.some(({ bundleId, phase }) => bundleId === bundle.bundleId && phase === 'activated'),
        120_000,
      );
      harness.unplug();
      save(bundle === bundles[0] ? 'before' : 'now');
    }
    await harness.daemon().engine.settled(AbortSignal.timeout(10_000));
    save('now');
    await harness.stop();
    references = bundles.flatMap(({ contents }) => contents.images.map(({ reference }) => reference)).sort();
    harness.plug((await release(2)).path);
  }

  /** Puts the saved state back, damages it, and returns in words how. */
  function damage(random: () => number): string {
    rmSync(harness.settings.paths.state_dir, { recursive: true });
    cpSync(join(saved, 'now'), harness.settings.paths.state_dir, { recursive: true });
    const how: string[] = [];
    for (const name of FILES) {
      // One of the two in any case.
      if (how.length === 0 ? name === 'state.db' && random() < 0.4 : random() < 0.3) continue;
      how.push(`${name} ${damageFile(stateFile(name), join(saved, 'before', name), random)}`);
    }
    if (random() < 0.1) {
      rmSync(stateFile('state.json'));
      how.push('state.json is gone');
    }
    return how.join(', ');
  }

  async function startDamaged(how: string): Promise<void> {
    const told = harness.log.lines.length;
    const before = harness.report();
    await harness.start();
    const isJudged = () => harness.report() !== before && harness.report().rejected.length > 0;
    await expect.poll(isJudged, { timeout: 60_000, message: how }).toBe(true);
    harness.daemon().engine.kick();
    await expect.poll(pinnedNow, { timeout: 60_000, message: how }).toEqual(references);
    const { bundles, unclaimed, rejected } = harness.report();
    expect(rejected[0]?.reason.code, how).toBe('bundle/sequence');
    expect(
      bundles.map(({ sequence }) => sequence).filter((sequence) => sequence < 8),
      how,
    ).toEqual([]);
    await harness.stop();
    const lines = harness.log.lines.slice(told).map(({ message }) => message);
    if (bundles.length < 2) {
      expect(unclaimed.length, how).toBeGreaterThan(0);
      // Without the newest mirror an earlier copy of the database looks like any other one; what is
      // unclaimed is told all the same.
      if (!how.includes('state.json is gone')) expect(lines.join('\n'), how).toMatch(/could not be used|earlier copy/);
      expect(lines.join('\n'), how).toMatch(/belongs? to no release that is known here/);
    }
  }
  const pinnedNow = async (): Promise<readonly string[]> => {
    const pinned = (await harness.images()).filter((image) => image.pinned).flatMap((image) => image.repoDigests);
    return references.filter((reference) => pinned.includes(reference));
  };

  async function playAll(): Promise<void> {
    await prepare();
    const seed = Number(process.env.STICKPIN_TEST_SEED ?? Date.now() % 2 ** 31);
    const random = seededRandom(seed);
    for (let start = 0; start < STARTS; start += 1) {
      const how = `start ${start} with STICKPIN_TEST_SEED=${seed}: ${damage(random)}`;
      try {
        await startDamaged(how);
      } catch (error) {
        throw new Error(
          `${how}\n${harness.log.lines
            .slice(-8)
            .map(({ message }) => message)
            .join('\n')}`,
          {
            cause: error,
          },
        );
      }
    }
  }

  it('on CRI-O: no pin is lost, nothing is activated below its floor, and one line reports what happened', {
    timeout: 300_000,
  }, async () => {
    const node: CrioNode = await createCrioNode();
    harness = node.harness;
    try {
      await playAll();
    } finally {
      await node.dispose();
    }
  });

  it('on containerd: no pin is lost, nothing is activated below its floor, and one line reports what happened', {
    timeout: 300_000,
  }, async () => {
    const node = await createContainerdNode();
    harness = node.harness;
    try {
      await playAll();
    } finally {
      await node.dispose();
    }
  });
});

/** Damages one file in one of many ways. `earlier`: the same file from another time. */
function damageFile(path: string, earlier: string, random: () => number): string {
  const size = existsSync(path) ? readFileSync(path).length : 0;
  const below = (limit: number) => Math.floor(random() * limit);
  const kind = below(7);
  if (kind === 0 || size === 0) {
    rmSync(path, { force: true });
    return 'is gone';
  }
  if (kind === 1) {
    const left = below(size);
    truncateSync(path, left);
    return `has ${left} of ${size} bytes`;
  }
  if (kind === 2) {
    truncateSync(path, 0);
    return 'is empty';
  }
  if (kind === 3) {
    writeFileSync(path, Buffer.from(Array.from({ length: 4_096 }, () => below(256))));
    return 'is garbage';
  }
  if (kind === 4 && existsSync(earlier)) {
    copyFileSync(earlier, path);
    return 'is from another time';
  }
  const bytes = readFileSync(path);
  if (kind === 5) {
    const at = below(size);
    bytes.fill(0, at, Math.min(size, at + 512));
    writeFileSync(path, bytes);
    return `has zeroes at ${at}`;
  }
  // The first page and the first frame are where everything begins.
  const places = Array.from({ length: 1 + below(4) }, () => below(random() < 0.5 ? Math.min(size, 4_096) : size));
  for (const at of places) bytes.writeUInt8(bytes.readUInt8(at) ^ (1 << below(8)), at);
  writeFileSync(path, bytes);
  return `has flipped bits at ${places.join(', ')}`;
}

import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { StatusReport } from '../../../../src/domain/report/status-schema.ts';
import { CriClient } from '../../../../src/runtime/cri/cri-client.ts';
import { makeSampleBundle, type SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage, sampleLayer } from '../../../support/bundles/sample-image.ts';
import type { DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { createContainerdNode } from '../../../support/daemon/runtimes/containerd-node.ts';
import { createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { eventually } from '../../../support/eventually.ts';
import { have } from '../../../support/requirements.ts';
import { trixieRoot } from '../../../support/rootfs/trixie-root.ts';
import { seededRandom } from '../../../support/seeded-random.ts';

/** Losses on each runtime. STICKPIN_LOSSES=200 is the whole proof. */
const LOSSES = Number(process.env.STICKPIN_LOSSES ?? 12);

/** What may be lost, by the files below the state directory; `pins` is what the runtime shows. */
const PARTS = {
  database: ['state.db'],
  log: ['state.db-wal'],
  mirror: ['state.json'],
  before: ['state.json.before'],
  parts: ['state.parts'],
  documents: ['blobs/sha256'],
  signatures: ['blobs/bundles'],
  status: ['status.json'],
  pins: ['crio/99-stickpin.conf'],
} as const;
type Part = keyof typeof PARTS;
const NAMES = Object.keys(PARTS) as readonly Part[];

/**
 * Two releases are proven, one after the other. Then the daemon starts again and again on a node
 * that has lost parts of what it had recorded, with an older release plugged in.
 */
describe.runIf(have('root', 'mmdebstrap'))(`${LOSSES} random losses`, () => {
  let factory: string;
  let harness: DaemonHarness;
  let forgetPins: () => Promise<void>;
  let references: readonly string[];
  let socketPath: () => string;

  beforeAll(async () => {
    await trixieRoot();
  });
  beforeEach(() => {
    factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
  });
  afterEach(() => rmSync(factory, { recursive: true, force: true }));

  const stateFile = (name: string) => join(harness.settings.paths.state_dir, name);
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

  const phases = ({ bundles }: StatusReport) => bundles.map(({ version, phase }) => `${version} ${phase}`).sort();
  const isProven = (report: StatusReport, { bundleId }: SampleBundle) =>
    report.operation === 'idle' && report.bundles.some((one) => one.bundleId === bundleId && one.phase === 'proven');

  async function prepare(): Promise<void> {
    await harness.start();
    const bundles = [await release(8), await release(9)];
    for (const bundle of bundles) {
      const name = `ocp@${bundle.payload.version}`;
      harness.plug(bundle.path);
      await harness.until((report) => {
        const found = report.bundles.find(({ bundleId }) => bundleId === bundle.bundleId);
        return report.operation === 'idle' && found?.phase === 'activated';
      });
      harness.unplug();
      harness.daemon().engine.commands.prove({ bundle: name });
      await harness.until((report) => isProven(report, bundle));
    }
    await harness.daemon().engine.settled(AbortSignal.timeout(10_000));
    expect(phases(harness.report())).toEqual(['4.13.8 superseded', '4.13.9 proven']);
    await harness.stop();
    references = bundles.flatMap(({ contents }) => contents.images.map(({ reference }) => reference)).sort();
    cpSync(harness.settings.paths.state_dir, join(factory, 'saved'), { recursive: true });
    harness.plug((await release(2)).path);
  }

  function putBack(): void {
    rmSync(harness.settings.paths.state_dir, { recursive: true });
    cpSync(join(factory, 'saved'), harness.settings.paths.state_dir, { recursive: true });
  }

  /**
   * Labels are in the runtime: after a loss of every record of them, the saved records pin again.
   */
  async function pinAgain(): Promise<void> {
    putBack();
    await harness.start();
    await expect.poll(pinnedNow, { timeout: 60_000 }).toEqual(references);
    await harness.stop();
  }

  /** Puts everything back, then loses the parts. Returns in words what. */
  async function lose(parts: readonly Part[], random: () => number): Promise<string> {
    putBack();
    const how: string[] = [];
    for (const part of parts) {
      for (const file of PARTS[part]) how.push(`${file} ${loseFile(stateFile(file), random)}`);
      if (part === 'pins') await forgetPins();
    }
    return how.join(', ');
  }

  async function start(how: string): Promise<void> {
    const before = harness.report();
    await harness.start();
    const isJudged = () => {
      const now = harness.report();
      return now !== before && (now.rejected.length > 0 || now.bundles.some(({ sequence }) => sequence === 2));
    };
    await expect.poll(isJudged, { timeout: 60_000, message: how }).toBe(true);
    for (let round = 0; round < 2; round += 1) {
      harness.daemon().engine.kick();
      await harness.daemon().engine.settled(AbortSignal.timeout(10_000));
    }
  }

  const pinnedNow = async (): Promise<readonly string[]> => {
    const pinned = (await harness.images()).filter((image) => image.pinned).flatMap((image) => image.repoDigests);
    return references.filter((reference) => pinned.includes(reference));
  };
  const lines = (told: number) => harness.log.lines.slice(told).map(({ message }) => message);
  /**
   * A line of the journal says of each release that is not as before what is not known, or what to
   * do; or from which time on nothing is known.
   */
  const isTold = (told: number): boolean => {
    const now = phases(harness.report());
    return ['4.13.8 superseded', '4.13.9 proven'].every((phase) => {
      if (now.includes(phase)) return true;
      const [version = ''] = phase.split(' ');
      const about = [`ocp ${version}`, 'known again as far as', 'to no release that is known here'];
      return lines(told).some(
        (line) =>
          line.includes('what was recorded after that is lost') ||
          (about.some((text) => line.includes(text)) && /plug(ged)? in|not known/.test(line)),
      );
    });
  };

  /** Forced pulls, with no registry but ours and no stick with these releases. */
  async function pullAll(): Promise<void> {
    const cri = new CriClient({ socketPath: socketPath() });
    try {
      for (const reference of references) await cri.pullImage(reference, AbortSignal.timeout(20_000));
    } finally {
      cri.close();
    }
  }

  async function check(how: string, told: number, lost: readonly Part[]): Promise<void> {
    const has = (part: Part) => !lost.includes(part);
    const isProvable = has('database') || (has('mirror') && has('parts'));
    // Where every record of the releases is gone, nobody can know of them.
    const areReleasesKnown = isProvable || has('mirror') || has('before') || has('signatures');
    // The names of images are in the parts of the mirror.
    const arePinsKnown = isProvable || (has('before') && has('parts')) || has('signatures') || has('pins');
    const wanted = arePinsKnown ? references : [];
    const missing = async () => {
      const pinned = await pinnedNow();
      return wanted.filter((reference) => !pinned.includes(reference));
    };
    await expect.poll(missing, { timeout: 60_000, message: how }).toEqual([]);
    const shown = () => phases(harness.report()).join(', ');
    if (isProvable) {
      const before = '4.13.8 superseded, 4.13.9 proven';
      await expect.poll(shown, { timeout: 60_000, message: how }).toBe(before);
    } else if (areReleasesKnown || arePinsKnown) {
      await expect.poll(() => isTold(told), { timeout: 60_000, message: how }).toBe(true);
    }
    if (isProvable) await eventually(pullAll, 60_000);
    const { bundles, rejected } = harness.report();
    const older = bundles.filter(({ sequence }) => sequence < 8).map(({ phase }) => phase);
    if (areReleasesKnown) {
      expect(older, how).toEqual([]);
      const codes = rejected.map(({ reason }) => reason.code);
      // A damaged mirror may have had revocations that nothing else has.
      const isDoubted = lines(told).some((line) => line.includes('which lists the revoked keys, is damaged'));
      expect(codes, how).toEqual([isDoubted ? 'bundle/revocations-unreadable' : 'bundle/sequence']);
      expect(isDoubted && isProvable, how).toBe(false);
    } else {
      for (const phase of older) expect(['discovered', 'preloading', 'ready', 'held'], how).toContain(phase);
    }
  }

  async function playAll(): Promise<void> {
    await prepare();
    const seed = Number(process.env.STICKPIN_TEST_SEED ?? Date.now() % 2 ** 31);
    const random = seededRandom(seed);
    for (let loss = 0; loss < LOSSES; loss += 1) {
      const parts = partsOf(loss, random);
      const what = `loss ${loss} with STICKPIN_TEST_SEED=${seed}: ${await lose(parts, random)}`;
      const told = harness.log.lines.length;
      try {
        await start(what);
        await check(what, told, parts);
      } catch (error) {
        const shown = phases(harness.report()).join(', ');
        throw new Error(`${what}\n${shown}\n${lines(told).join('\n')}`, { cause: error });
      }
      const areAllPinned = (await pinnedNow()).length === references.length;
      await harness.stop();
      if (!areAllPinned) await pinAgain();
    }
  }

  it('on CRI-O: every pin stays, and each proven release is proven again or a line says what is needed', {
    timeout: 1_500_000,
  }, async () => {
    const node = await createCrioNode();
    harness = node.harness;
    // The drop-in that CRI-O reads is a copy of the rendered file.
    socketPath = () => node.double().socketPath;
    forgetPins = async () => rmSync(harness.settings.crio.pins_file, { force: true });
    try {
      await playAll();
    } finally {
      await node.dispose();
    }
  });

  it('on containerd: every pin stays, and each proven release is proven again or a line says what is needed', {
    timeout: 1_500_000,
  }, async () => {
    const node = await createContainerdNode();
    harness = node.harness;
    socketPath = () => node.containerd.socketPath;
    forgetPins = node.containerd.forgetPins;
    try {
      await playAll();
    } finally {
      await node.dispose();
    }
  });
});

/** Each part alone first, then all, then some of them. */
function partsOf(loss: number, random: () => number): readonly Part[] {
  const single = NAMES[loss];
  if (single !== undefined) return [single];
  if (loss === NAMES.length) return NAMES;
  // Nothing but the signed documents says what was pinned, and a damaged mirror keeps all keys
  // back.
  if (loss === NAMES.length + 1) return ['database', 'mirror', 'before', 'pins'];
  if (loss === NAMES.length + 2) return ['database', 'parts', 'pins'];
  const some = NAMES.filter(() => random() < 0.5);
  return some.includes('database') || random() < 0.3 ? some : ['database', ...some];
}

/** Removes a file or a folder, or damages what is in it. */
function loseFile(path: string, random: () => number): string {
  if (!existsSync(path)) return 'is not there';
  const kind = Math.floor(random() * 4);
  if (kind === 0) {
    rmSync(path, { recursive: true });
    return 'is gone';
  }
  const isFolder = statSync(path).isDirectory();
  const files = isFolder
    ? readdirSync(path, { recursive: true, encoding: 'utf8' }).map((name) => join(path, name))
    : [path];
  for (const file of files.filter((one) => statSync(one).isFile())) {
    const bytes = readFileSync(file);
    const cut = Math.floor(random() * bytes.length);
    if (kind === 1) writeFileSync(file, bytes.subarray(0, cut));
    else if (kind === 2) writeFileSync(file, Buffer.alloc(bytes.length, 0xa5));
    else writeFileSync(file, Buffer.concat([bytes.subarray(0, cut), Buffer.alloc(bytes.length - cut)]));
  }
  return ['', 'is cut', 'is garbage', 'ends in zeroes'][kind] ?? '';
}

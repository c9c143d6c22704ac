import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { makeSampleBundle, type SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { type CrioNode, createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { have } from '../../../support/requirements.ts';
import { trixieRoot } from '../../../support/rootfs/trixie-root.ts';
import { loseMirror, loseSigned, mirroredDocument } from '../../../support/state/lose-state.ts';

describe.runIf(have('root', 'mmdebstrap'))('a daemon on CRI-O whose state was lost', () => {
  let node: CrioNode;
  let factory: string;
  let bundle: SampleBundle;
  let references: readonly string[];

  beforeAll(async () => {
    await trixieRoot();
  });
  beforeEach(async () => {
    factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
    node = await createCrioNode();
    bundle = await makeSampleBundle({ dir: factory, keys: [node.harness.key] });
    references = bundle.contents.images.map((image) => image.reference).sort();
    await node.harness.start();
    node.harness.plug(bundle.path);
    await node.harness.until((report) => report.bundles[0]?.phase === 'activated' && report.operation === 'idle');
    node.harness.unplug();
    await node.harness.stop();
    // What follows is about a node on which nothing is left to rebuild its releases from.
    loseMirror(statePath(''));
    loseSigned(statePath(''));
  });
  afterEach(async () => {
    await node.dispose();
    rmSync(factory, { recursive: true, force: true });
  });

  const statePath = (name: string) => join(node.harness.settings.paths.state_dir, name);
  const runPath = () => node.harness.settings.crio.pins_file;
  const dropIn = (path: string) => [...readFileSync(path, 'utf8').matchAll(/^ {2}"(.*)",$/gm)].map(([, pin]) => pin);
  const aside = () => readdirSync(statePath('')).filter((name) => /^state\.db\.damaged-\d{8}T\d{6}Z$/.test(name));
  const lines = () => node.harness.log.lines.map(({ message }) => message);
  const expectPinsKept = async (): Promise<void> => {
    expect(dropIn(statePath('crio/99-stickpin.conf'))).toEqual(references);
    expect(dropIn(runPath())).toEqual(references);
    const images = await node.harness.images();
    for (const reference of references)
      expect(images.find(({ repoDigests }) => repoDigests.includes(reference))?.pinned, reference).toBe(true);
  };
  /** Starts the daemon and waits for a round that knows of the unclaimed pins, and for one more. */
  const startUnclaimed = async (): Promise<void> => {
    const before = node.harness.report();
    await node.harness.start();
    await node.harness.until(
      (report) => report !== before && report.unclaimed.flatMap((pins) => pins.references).length === 2,
    );
    node.harness.daemon().engine.kick();
    await node.harness.daemon().engine.settled(AbortSignal.timeout(10_000));
  };

  it.each<{ how: string; damage: () => void; isKept: boolean }>([
    { how: 'is gone', damage: () => rmSync(statePath('state.db')), isKept: false },
    { how: 'is empty', damage: () => truncateSync(statePath('state.db'), 0), isKept: true },
    {
      how: 'is not a database',
      damage: () => writeFileSync(statePath('state.db'), 'garbage'.repeat(1_000)),
      isKept: true,
    },
    { how: 'was cut', damage: () => truncateSync(statePath('state.db'), 5_000), isKept: true },
    {
      how: 'is a folder',
      damage: () => {
        rmSync(statePath('state.db'));
        mkdirSync(statePath('state.db'));
      },
      isKept: true,
    },
  ])('keeps every pin as unclaimed when state.db $how, and says so', async ({ damage, isKept }) => {
    damage();
    await startUnclaimed();
    await expectPinsKept();
    expect(node.harness.report().unclaimed).toEqual([{ references }]);
    expect(node.harness.report().status).toContain('2 unclaimed pins are kept');
    expect(aside()).toHaveLength(isKept ? 1 : 0);
    expect(lines()).toContainEqual(expect.stringMatching(/state\.db could not be used: .*all pins stay/));
    expect(lines()).toContainEqual(expect.stringMatching(/^2 pinned images belong to no release that is known here/));
    expect(node.harness.log.kinds()).toContain('pinsUnclaimed');
  });

  it('has the release claim its pins when its stick is seen again', async () => {
    rmSync(statePath('state.db'));
    await startUnclaimed();
    node.harness.plugAgain();
    // Without floors nothing is activated by itself.
    const report = await node.harness.until(({ bundles }) => bundles[0]?.phase === 'ready');
    expect(report.unclaimed).toEqual([]);
    await expectPinsKept();
    expect(lines()).toContain('ocp 4.13.7 has claimed 2 pinned images again');
    expect(node.harness.log.kinds()).toContain('pinsClaimed');
  });

  it('keeps them over another restart, and over a second loss', async () => {
    rmSync(statePath('state.db'));
    await startUnclaimed();
    await node.harness.stop();
    loseMirror(statePath(''));
    rmSync(statePath('state.db'));
    await startUnclaimed();
    await expectPinsKept();
    expect(node.harness.report().unclaimed).toEqual([{ references }]);
  });

  it.each<{ what: string; lose: () => void }>([
    { what: 'the running copy, as after a reboot', lose: () => writeFileSync(runPath(), '') },
    { what: 'the persistent copy', lose: () => rmSync(statePath('crio/99-stickpin.conf')) },
    { what: 'everything in the state directory', lose: () => rmSync(statePath(''), { recursive: true }) },
    {
      what: 'one copy, with the other one cut in the middle,',
      lose: () => {
        rmSync(statePath('crio/99-stickpin.conf'));
        const text = readFileSync(runPath(), 'utf8');
        writeFileSync(runPath(), text.slice(0, text.lastIndexOf('",') + 2));
      },
    },
  ])('keeps them when $what is lost together with state.db', async ({ lose }) => {
    lose();
    rmSync(statePath('state.db'), { force: true });
    await startUnclaimed();
    await expect.poll(expectPinsKept, { timeout: 60_000 }).toBeUndefined();
  });

  it('gives them up on demand, only with force, permanently', async () => {
    rmSync(statePath('state.db'));
    await startUnclaimed();
    const { engine } = node.harness.daemon();
    await expect(engine.commands.unpinUnclaimed({ force: false }, AbortSignal.timeout(10_000))).rejects.toMatchObject({
      code: 'engine/running',
    });
    await expectPinsKept();
    expect(await engine.commands.unpinUnclaimed({ force: true }, AbortSignal.timeout(10_000))).toBe(
      '2 unclaimed pins of a release that nobody remembers were given up by hand',
    );
    expect(node.harness.log.kinds()).toContain('pinsGivenUp');
    await node.harness.until(({ unclaimed }) => unclaimed.length === 0);
    const pinned = async () => (await node.harness.images()).filter((image) => image.pinned);
    await expect.poll(pinned, { timeout: 60_000 }).toEqual([]);
    expect(dropIn(statePath('crio/99-stickpin.conf'))).toEqual([]);
    await expect(engine.commands.unpinUnclaimed({ force: true }, AbortSignal.timeout(10_000))).rejects.toMatchObject({
      code: 'engine/no-unclaimed',
    });
    await node.harness.stop();
    await node.harness.start();
    await expect.poll(() => mirroredDocument(statePath(''), 'pins')).toMatchObject({ givenUp: [] });
    expect(node.harness.report().unclaimed).toEqual([]);
    expect(await pinned()).toEqual([]);
  });
});

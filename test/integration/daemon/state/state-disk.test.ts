import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { renderList, renderStatus } from '../../../../src/cli/output/render/render-status.ts';
import { makeSampleBundle, type SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import type { DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { type CrioNode, createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { mounting, mountSmallDisk, type SmallDisk } from '../../../support/files/small-disk.ts';
import { have, program } from '../../../support/requirements.ts';
import { trixieRoot } from '../../../support/rootfs/trixie-root.ts';

const MIB = 1024 ** 2;
const FULL = /can't be written: its filesystem is full \(no space or no inodes left\)[;.] [Mm]ake room on it/;
const READ_ONLY =
  /can't be written: its filesystem is read-only[;.] [Ll]ook for errors of the disk in dmesg, and remount it/;
/** What SQLite says, and what sounds as if nobody had to do anything. */
const RAW =
  /database or disk is full|readonly database|unable to open database|disk I\/O error|if it is damaged|try again/i;

describe.runIf(have('root', 'mmdebstrap', mounting, program('mkfs.ext4', 'apt-get install e2fsprogs')))(
  "a state directory that can't be written",
  () => {
    let disk: SmallDisk;
    let node: CrioNode;
    let harness: DaemonHarness;
    let factory: string;
    let bundle: SampleBundle;

    async function setUp(kind: 'tmpfs' | 'ext4', sizeBytes: number): Promise<void> {
      disk = mountSmallDisk(kind, sizeBytes);
      node = await createCrioNode({ paths: { state_dir: disk.path } });
      ({ harness } = node);
      bundle = await makeSampleBundle({ dir: factory, keys: [harness.key] });
    }
    beforeAll(async () => {
      await trixieRoot();
    });
    beforeEach(() => {
      factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
    });
    afterEach(async () => {
      await node.dispose();
      disk.dispose();
      rmSync(factory, { recursive: true, force: true });
    });
    const plugAndActivate = async () => {
      harness.plug(bundle.path);
      await harness.until((report) => report.bundles[0]?.phase === 'activated');
    };
    const signal = () => new AbortController().signal;

    /**
     * STATUS, `status`, `list` and the journal say what is wrong; the stick and its bundle are
     * listed.
     */
    async function expectWords(words: RegExp): Promise<void> {
      const report = await harness.until(
        ({ status, bundles }) => words.test(status) && bundles.some(({ phase }) => phase === 'detected'),
      );
      const stick = join(harness.base, 'stick');
      expect(report.status).toContain(disk.path);
      expect(report.status).toMatch(
        /(waits for it|remount it writable|make room on it|continues automatically(?: once that is mended)?)\.$/i,
      );
      expect(renderStatus(report)).toContain(`${stick} (read, 1 bundle)`);
      expect(renderList(report)).toMatch(new RegExp(`ocp@4\\.13\\.7 +detected +0/2 .*${stick} `));
      expect(renderList(report)).toMatch(words);
      const logged = harness.log.lines.map(({ message }) => message);
      expect(logged.some((message) => words.test(message) && message.includes(disk.path))).toBe(true);
      expect([...logged, ...harness.statuses].filter((line) => RAW.test(line))).toEqual([]);
    }

    it('full while the daemon runs: reported everywhere, and it continues once there is space', async () => {
      await setUp('tmpfs', 2 * MIB);
      await harness.start();
      await harness.until(() => true);
      disk.fill();
      harness.plug(bundle.path);
      await expectWords(FULL);
      expect(() => harness.daemon().engine.commands.approve({ bundle: bundle.bundleId })).toThrow(FULL);
      disk.free();
      await harness.until((report) => report.bundles[0]?.phase === 'activated');
      expect(harness.report().status).not.toMatch(FULL);
    });

    it('read-only under the running daemon, as after disk errors: reported, and the values in memory stay in use', async () => {
      await setUp('ext4', 16 * MIB);
      await harness.start();
      await plugAndActivate();
      disk.breakDown();
      expect(() => harness.daemon().engine.commands.approve({ bundle: bundle.bundleId })).toThrow(READ_ONLY);
      harness.daemon().engine.kick();
      const report = await harness.until(({ status }) => READ_ONLY.test(status));
      expect(report.bundles.map(({ phase }) => phase)).toEqual(['activated']);
    });

    it.each([
      { fault: 'full', words: FULL },
      { fault: 'read-only', words: READ_ONLY },
    ] as const)(
      '$fault at the first start: the daemon runs, and adopts the bundle once the directory can be written',
      async (given) => {
        await setUp('tmpfs', 2 * MIB);
        if (given.fault === 'full') disk.fill();
        else disk.readOnly();
        await harness.start();
        harness.plug(bundle.path);
        await expectWords(given.words);
        if (given.fault === 'full') disk.free();
        else disk.writable();
        await harness.until((report) => report.bundles[0]?.phase === 'activated');
        await harness.stop();
        await harness.start();
        await harness.until((report) => report.bundles[0]?.phase === 'activated');
      },
    );

    it.each([
      { fault: 'full', words: FULL },
      { fault: 'read-only', words: READ_ONLY },
    ] as const)(
      '$fault at a later start: the daemon reads what was recorded, and records again once the directory can be written',
      async (given) => {
        await setUp('tmpfs', 2 * MIB);
        await harness.start();
        await plugAndActivate();
        const pins = (await harness.images()).map(({ pinned }) => pinned);
        await harness.stop();
        if (given.fault === 'full') disk.fill();
        else disk.readOnly();
        await harness.start();
        const report = await harness.until(({ status }) => given.words.test(status));
        expect(report.bundles.map(({ name, phase }) => [name, phase])).toEqual([['ocp', 'activated']]);
        expect((await harness.images()).map(({ pinned }) => pinned)).toEqual(pins);
        expect(() => harness.daemon().engine.commands.reject({ bundle: bundle.bundleId })).toThrow(given.words);
        if (given.fault === 'full') disk.free();
        else disk.writable();
        await harness.until(({ status }) => !given.words.test(status));
        harness.daemon().engine.commands.reject({ bundle: bundle.bundleId });
        await harness.daemon().engine.settled(AbortSignal.timeout(10_000));
        expect(existsSync(join(harness.base, 'run/state'))).toBe(false);
        await harness.stop();
        await harness.start();
        const events = harness.daemon().engine.history(undefined, 100);
        expect(events.map(({ kind }) => kind)).toContain('bundleActivated');
        expect(events.at(-1)?.kind).toBe('bundleVetoed');
        await harness
          .daemon()
          .engine.commands.unpin({ bundle: 'ocp@4.13.7', removeImages: false, force: true }, signal());
      },
    );
  },
);

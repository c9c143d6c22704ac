import { rmSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Digest, hexOf } from '../../../../src/domain/model/digest.ts';
import type { StatusReport } from '../../../../src/domain/report/status-schema.ts';
import { pullError } from '../../../../src/runtime/cri/runtime-error.ts';
import type { RuntimeAdapter } from '../../../../src/runtime/runtime-adapter.ts';
import {
  makeSampleBundle,
  ocpImages,
  type SampleBundle,
  type SampleBundleOptions,
  sampleKey,
} from '../../../support/bundles/sample-bundle.ts';
import {
  createDaemonHarness,
  type DaemonHarness,
  type HarnessOptions,
  type SettingsOverrides,
} from '../../../support/daemon/daemon-harness.ts';
import { type BundleFiles, type MemoryMedia, readBundleFiles } from '../../../support/daemon/memory-media.ts';
import { PersonLog } from '../../../support/daemon/person-log.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const KEY = sampleKey('factory-2026');
const STRANGER = sampleKey('stranger');

interface Release extends SampleBundle {
  readonly files: BundleFiles;
}

/**
 * What a person with sticks reads, from the first line to the last, while the real daemon runs. A
 * line is its words and its code; work on a stick that is plugged in may take any number of lines.
 */
describe('a person with sticks', () => {
  const factory = folderForEach();
  let node: DaemonHarness;
  let sda1: MemoryMedia;
  let sdb1: MemoryMedia;
  let log: PersonLog;
  let read: number;

  beforeEach(() => {
    log = new PersonLog();
    sda1 = log.port('sda1');
    sdb1 = log.port('sdb1');
  });
  afterEach(() => log.check());

  const begin = async (settings: SettingsOverrides = {}, more: HarnessOptions = {}) => {
    const onReport = (report: StatusReport) => log.take(report);
    node = await createDaemonHarness({ settings, keys: [KEY], providers: () => [sda1, sdb1], onReport, ...more });
    await node.start();
    await node.until(({ operation }) => operation === 'idle');
    read = node.statuses.length;
  };
  const make = async (version: string, more: Partial<SampleBundleOptions> = {}): Promise<Release> => {
    const sequence = Number(version.split('.').at(-1));
    const made = await makeSampleBundle({ dir: factory, keys: [KEY], version, sequence, ...more });
    const files = readBundleFiles(made.path);
    rmSync(made.path, { recursive: true });
    return { ...made, files };
  };
  const lastLayer = ({ contents }: Release) => `blobs/sha256/${hexOf(contents.layers.at(-1)?.digest as Digest)}`;
  const without = (release: Release) => new Map([...release.files].filter(([name]) => name !== lastLayer(release)));
  const damaged = (release: Release) =>
    new Map(
      [...release.files].map(([name, bytes]) => {
        const copy = Buffer.from(bytes);
        if (name === lastLayer(release)) copy[100] = 255 - (copy[100] ?? 0);
        return [name, copy];
      }),
    );
  const is = (version: string, phase: string) => (report: StatusReport) =>
    report.operation === 'idle' && report.bundles.some((one) => one.version === version && one.phase === phase);
  const isOut = ({ media }: StatusReport) => media.every(({ medium }) => !['sda1', 'sdb1'].includes(medium));

  /** What was read since the last call: words and codes, and the last line as a whole. */
  const lines = async (until: (report: StatusReport) => boolean): Promise<readonly string[]> => {
    await node.until(until);
    await node.rounds(2);
    const all = node.statuses.slice(read);
    read = node.statuses.length;
    const heads = all.map((line) => /^[A-Z ]+(?: \([A-Z]-\d\d\))?/.exec(line)?.[0] ?? line);
    const last = node.statuses.at(-1) ?? '';
    return [...heads.slice(0, -1).filter((head, at) => head !== heads[at - 1]), last].filter(
      (head, at, kept) => !last.startsWith(`${head}:`) || at === kept.length - 1,
    );
  };
  const LOADING = 'LEAVE THE STICK IN';
  const installed = (version: string) =>
    `DONE: ocp ${version} is installed. Remove the stick. It is activated: 2 images present and pinned.`;
  const resting = (version: string) =>
    `IDLE: ocp ${version} activated (2 images present and pinned). Waiting for a stick.`;
  const load = async (release: Release) => {
    sda1.plug(release.files);
    await node.until(is(release.payload.version, 'activated'));
    sda1.unplug();
    await node.until(isOut);
    await node.rounds(2);
    read = node.statuses.length;
  };

  /** Resolves in mid-read, when its list of images has been read, with what lets the read go on. */
  const holdFirstLayer = async (stick: MemoryMedia, { payload }: Release) => {
    await node.until(({ bundles }) => bundles.some(({ version }) => version === payload.version));
    const letGo = stick.hold();
    await node.until(() => stick.openReads() > 0);
    return letGo;
  };
  const pullOutEarly = async (release: Release) => {
    sda1.plug(release.files);
    const letGo = await holdFirstLayer(sda1, release);
    await node.rounds(2);
    sda1.unplug();
    letGo();
    expect((await lines(isOut)).at(-1)).toMatch(
      /^PLUG IN THE STICK AGAIN \(M-10\): Stick removed while preloading ocp 4\.13\.9 /,
    );
  };

  it('loads a good release', async () => {
    await begin();
    sda1.plug((await make('4.13.7')).files);
    expect(await lines(is('4.13.7', 'activated'))).toEqual([LOADING, installed('4.13.7')]);
    sda1.unplug();
    expect(await lines(isOut)).toEqual([resting('4.13.7')]);
    expect(node.report()).toMatchObject({ verdict: 'good', needsPerson: [], waitsForAdmin: [] });
  });

  it('brings a release that an administrator activates: it is done, and nobody is called', async () => {
    await begin({ update: { strategy: 'manual' } });
    sda1.plug((await make('4.13.7')).files);
    const done =
      "ocp 4.13.7 is loaded: 2 images present and pinned. An administrator activates it. To activate it: 'stickpin activate ocp@4.13.7'.";
    expect(await lines(is('4.13.7', 'ready'))).toEqual([
      LOADING,
      `DONE: ${done.replace('An admin', 'Remove the stick. An admin')}`,
    ]);
    expect(node.report().advice).toMatchObject({ action: 'remove', words: 'DONE' });
    sda1.unplug();
    expect(await lines(isOut)).toEqual([`DONE: ${done}`]);
    expect(node.report()).toMatchObject({
      verdict: 'waits-for-admin',
      needsPerson: [],
      waitsForAdmin: [{ code: 'A-01', bundle: 'ocp@4.13.7' }],
    });
    log.act(() => node.engine.commands.activate({ bundle: 'ocp@4.13.7' }));
    expect((await lines(is('4.13.7', 'activated'))).at(-1)).toBe(resting('4.13.7'));
    expect(node.report()).toMatchObject({ verdict: 'good', waitsForAdmin: [] });
  });

  it('brings a stick that an administrator must approve: it stays in, and nobody is called', async () => {
    await begin({ trust: { require: 'both' } });
    sda1.plug((await make('4.13.7')).files);
    const shown = await lines(({ waitsForAdmin = [] }) => waitsForAdmin.length > 0);
    expect(shown.at(-1)).toMatch(/^LEAVE THE STICK IN \(K-15\): ocp 4\.13\.7 waits for approval\. /);
    expect(node.report()).toMatchObject({ verdict: 'waits-for-admin', needsPerson: [] });
    log.act(() => node.engine.commands.approve({ bundle: 'ocp@4.13.7' }));
    expect((await lines(is('4.13.7', 'activated'))).at(-1)).toBe(installed('4.13.7'));
  });

  it('is not called for what an administrator rolled back, and brings a newer release', async () => {
    await begin();
    await load(await make('4.13.7'));
    log.act(() => node.engine.commands.prove({ bundle: 'ocp@4.13.7' }));
    const bad = await make('4.13.8');
    await load(bad);
    log.act(() => node.engine.commands.rollback({ stream: 'ocp' }));
    const isBack = ({ operation, bundles }: StatusReport) =>
      operation === 'idle' && bundles.some((one) => one.version === '4.13.7' && one.current === true);
    expect((await lines(isBack)).at(-1)).toMatch(/^IDLE: ocp 4\.13\.7 (activated|proven) /);
    expect(node.report()).toMatchObject({ verdict: 'good', needsPerson: [] });
    sda1.plug(bad.files);
    expect(
      (await lines(({ media }) => media.some(({ medium, state }) => medium === 'sda1' && state === 'read'))).at(-1),
    ).toMatch(/^REMOVE THE STICK \(A-20\): ocp 4\.13\.8 was rolled back to ocp 4\.13\.7 by hand\. /);
    sda1.unplug();
    await lines(isOut);
    sda1.plug((await make('4.13.9')).files);
    expect(await lines(is('4.13.9', 'activated'))).toEqual([LOADING, installed('4.13.9')]);
  });

  it('is not called for what an administrator rejected, and brings another release', async () => {
    await begin();
    const bad = await make('4.13.7');
    await load(bad);
    log.act(() => node.engine.commands.reject({ bundle: 'ocp@4.13.7' }));
    expect((await lines(({ bundles }) => bundles[0]?.reason?.code === 'trust/rejected')).at(-1)).toMatch(
      /^IDLE \(K-16\): /,
    );
    expect(node.report()).toMatchObject({ verdict: 'good', needsPerson: [] });
    sda1.plug(bad.files);
    expect(
      (await lines(({ media }) => media.some(({ medium, state }) => medium === 'sda1' && state === 'read'))).at(-1),
    ).toMatch(/^REMOVE THE STICK \(K-16\): ocp 4\.13\.7 was rejected on this node\. /);
    sda1.unplug();
    await lines(isOut);
    sda1.plug((await make('4.13.8')).files);
    expect(await lines(is('4.13.8', 'activated'))).toEqual([LOADING, installed('4.13.8')]);
  });

  it('brings a short stick, then another release, then the rest of the first one', async () => {
    await begin();
    const next = await make('4.13.9');
    sda1.plug(without(next));
    const lacks = await lines(({ advice }) => advice.code === 'M-11');
    expect([lacks[0], lacks.at(-1)]).toEqual([
      LOADING,
      expect.stringMatching(/^PLUG IN ANOTHER STICK \(M-11\): ocp 4\.13\.9 lacks 1 blob on the stick\. /),
    ]);
    sda1.unplug();
    await lines(isOut);
    sda1.plug((await make('4.13.7')).files);
    expect(await lines(is('4.13.7', 'activated'))).toEqual([
      LOADING,
      expect.stringMatching(
        /^REMOVE THE STICK: ocp 4\.13\.7 is installed\. Then plug in another stick of ocp 4\.13\.9 \(M-11\)\./,
      ),
    ]);
    expect(node.report().verdict).toBe('needs-person');
    sda1.unplug();
    expect((await lines(isOut)).at(-1)).toMatch(/^PLUG IN ANOTHER STICK \(M-11\): ocp 4\.13\.9 /);
    sdb1.plug(next.files);
    expect(await lines(is('4.13.9', 'activated'))).toEqual([LOADING, installed('4.13.9')]);
  });

  it('brings a damaged stick, a foreign one, and a good one', async () => {
    await begin();
    const release = await make('4.13.9');
    sda1.plug(damaged(release));
    // While the others are pulled the stick stays in.
    expect((await lines(({ needsPerson }) => needsPerson.length > 0)).at(-1)).toMatch(/ \(M-(?:19|12)\): /);
    sda1.unplug();
    expect((await lines(({ advice }) => advice.code === 'M-12')).at(-1)).toMatch(
      /^PLUG IN ANOTHER STICK \(M-12\): ocp 4\.13\.9 needs an undamaged copy\. /,
    );
    sda1.plug((await make('4.13.7', { keys: [STRANGER] })).files);
    expect((await lines(({ rejected }) => rejected.length > 0)).at(-1)).toMatch(/^PLUG IN ANOTHER STICK \(M-12\): /);
    sda1.unplug();
    await lines(isOut);
    sda1.plug(release.files);
    expect((await lines(is('4.13.9', 'activated'))).at(-1)).toBe(installed('4.13.9'));
  });

  it('pulls the stick out in mid-read, and plugs it in again', async () => {
    await begin();
    const release = await make('4.13.9');
    await pullOutEarly(release);
    sda1.plug(release.files);
    expect(await lines(is('4.13.9', 'activated'))).toEqual([LOADING, installed('4.13.9')]);
  });

  it('pulls the stick out in mid-read, then brings another release, then the first one', async () => {
    await begin();
    const next = await make('4.13.9');
    await pullOutEarly(next);
    sda1.plug((await make('4.13.7')).files);
    // The runtime still waits for the first stick.
    const isLoaded = ({ bundles }: StatusReport) =>
      bundles.some(({ version, phase }) => version === '4.13.7' && phase === 'ready');
    expect(await lines(isLoaded)).toEqual([
      LOADING,
      expect.stringMatching(
        /^REMOVE THE STICK: ocp 4\.13\.7 is loaded: .*\. Then plug in the stick of ocp 4\.13\.9 \(M-10\)\./,
      ),
    ]);
    sda1.unplug();
    expect((await lines(isOut)).at(-1)).toMatch(
      /^PLUG IN THE STICK AGAIN \(M-10\): Stick removed while preloading ocp 4\.13\.9 /,
    );
    sda1.plug(next.files);
    expect(await lines(is('4.13.9', 'activated'))).toEqual([LOADING, installed('4.13.9')]);
  });

  it('brings a release while the disk is full: support frees it', async () => {
    let freeBytes = 4096;
    await begin(
      {},
      {
        watchRuntime: (runtime) => ({
          ...runtime,
          observe: async (signal) => {
            const seen = await runtime.observe(signal);
            return { ...seen, filesystem: { path: '/var/lib/containers', totalBytes: 1e9, freeBytes } };
          },
        }),
      },
    );
    sda1.plug((await make('4.13.7')).files);
    const full = await lines(({ advice }) => advice.code === 'D-01');
    expect([full[0], full.at(-1)]).toEqual([
      LOADING,
      expect.stringMatching(/^CALL SUPPORT \(D-01\): Not enough space for ocp 4\.13\.7 on \/var\/lib\/containers: /),
    ]);
    log.act(() => {
      freeBytes = 5e8;
    });
    node.engine.kick();
    expect((await lines(is('4.13.7', 'activated'))).at(-1)).toBe(installed('4.13.7'));
  });

  it('plugs in a second stick, and removes the first one, which is not needed', async () => {
    await begin();
    sda1.plug((await make('4.13.7')).files);
    await lines(is('4.13.7', 'activated'));
    const next = await make('4.13.9');
    sdb1.plug(next.files);
    const letGo = await holdFirstLayer(sdb1, next);
    expect((await lines(() => true)).at(-1)).toMatch(/^LEAVE THE STICK IN: Preloading ocp 4\.13\.9 from sdb1: /);
    sda1.unplug();
    expect((await lines(() => true)).at(-1)).toMatch(/^LEAVE THE STICK IN: Preloading ocp 4\.13\.9 from the stick: /);
    letGo();
    expect(await lines(is('4.13.9', 'activated'))).toEqual([LOADING, installed('4.13.9')]);
  });

  it('brings a release with an unsigned image, which the policy of the node refuses', async () => {
    const isRefused = true;
    await begin(
      {},
      {
        watchRuntime: (runtime) => ({
          ...runtime,
          pull: async (reference, signal) => {
            if (isRefused && reference.includes('/etcd@'))
              throw pullError(
                'runtime/policy',
                'Source image rejected: A signature was required, but no signature exists',
              );
            await runtime.pull(reference, signal);
          },
        }),
      },
    );
    sda1.plug((await make('4.13.7')).files);
    const refused = await lines(({ advice }) => advice.action === 'call-support');
    expect(refused.at(-1)).toMatch(/^CALL SUPPORT \(R-11\): /);
  });

  it('brings an older stick, from which images are pulled again, and then its own one', async () => {
    let runtime: RuntimeAdapter | undefined;
    const watchRuntime = (one: RuntimeAdapter) => {
      runtime = one;
      return one;
    };
    await begin({}, { watchRuntime });
    const older = await make('4.13.7');
    const current = await make('4.13.8', { images: [...older.images, ...ocpImages(['extra'])] });
    await load(current);
    const signal = new AbortController().signal;
    for (const { imageId } of await node.images()) await runtime?.removeImage(imageId, signal);
    await runtime?.forgetContent(
      current.contents.layers.map(({ digest }) => digest),
      signal,
    );
    log.act(() => node.engine.kick());
    const gone = await lines(({ advice }) => advice.action === 'plug-in');
    expect(gone.at(-1)).toMatch(/^PLUG IN THE STICK \(M-\d\d\): /);
    sda1.plug(older.files);
    const letGo = await holdFirstLayer(sda1, current);
    expect((await lines(() => true)).at(-1)).toMatch(
      /^LEAVE THE STICK IN: Preloading ocp 4\.13\.8 from the stick: 0\/3 images/,
    );
    letGo();
    await lines(({ bundles, operation }) => operation === 'idle' && bundles[0]?.images.present === 2);
    sda1.unplug();
    await lines(isOut);
    sda1.plug(current.files);
    expect((await lines(is('4.13.8', 'activated'))).at(-1)).toBe(installed('4.13.8').replace('2 images', '3 images'));
  });
});

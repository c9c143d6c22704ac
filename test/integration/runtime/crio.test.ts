import {
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { RuntimeImage, RuntimeObservation } from '../../../src/domain/model/image.ts';
import { AppError } from '../../../src/platform/app-error.ts';
import type { UnitControl } from '../../../src/ports/node.ts';
import { createCrioRuntime } from '../../../src/runtime/crio/crio-runtime.ts';
import type { RuntimeAdapter } from '../../../src/runtime/runtime-adapter.ts';
import { type SampleImage, sampleImage, sampleLayer } from '../../support/bundles/sample-image.ts';
import { type CrioDouble, startCrioDouble } from '../../support/crio-double/start-crio-double.ts';
import { eventually } from '../../support/eventually.ts';
import { coded } from '../../support/matching.ts';
import { createRecordingLog } from '../../support/recording-log.ts';
import { have } from '../../support/requirements.ts';
import { skopeoArgv, trixieRoot } from '../../support/rootfs/trixie-root.ts';
import { type SourceRegistry, startSourceRegistry } from '../../support/source-registry.ts';

const TOKEN = '0123456789abcdef0123456789abcdef';
const REPOSITORY = 'quay.example.com/coreos/etcd';
const signal = AbortSignal.timeout(600_000);
const unforced = { force: false };

describe.runIf(have('root', 'mmdebstrap'))('the CRI-O adapter', () => {
  let registry: SourceRegistry;
  let double: CrioDouble;
  let runtime: RuntimeAdapter;
  let reloads: number;
  let reloadFailure: Error | undefined;
  let unitListeners: Set<() => void>;

  const units: UnitControl = {
    reloadUnit: async () => {
      if (reloadFailure !== undefined) throw reloadFailure;
      reloads += 1;
      await double.reloadAndWait(); // the real one returns before it took effect (docs/runtime-facts.md, fact 5); the engine's tests are about that
    },
    onUnitChange: (_unit, listener) => {
      unitListeners.add(listener);
      return () => unitListeners.delete(listener);
    },
  };
  const paths = () => ({
    configPath: join(double.dirs.crioConfig, 'crio.conf'),
    configDirectory: double.dirs.crioDropIns,
    pinsLink: join(double.dirs.crioDropIns, '99-stickpin.conf'),
    pinsFile: join(double.dirs.run, 'crio.conf.d/99-stickpin.conf'),
    persistentPinsFile: join(double.dirs.base, 'var/99-stickpin.conf'),
    registriesPath: double.dirs.registriesFile,
    registriesDirectory: double.dirs.registriesDropIns,
    mirrorsLink: join(double.dirs.registriesDropIns, '99-stickpin.conf'),
    mirrorsFile: join(double.dirs.base, 'run/stickpin/registries.conf'),
    persistentMirrorsFile: join(double.dirs.base, 'state/registries.conf'),
    reloadMarker: join(double.dirs.base, 'run/stickpin/crio-reload-owed'),
    policyPath: double.dirs.policyFile,
    policiesDirectory: join(double.dirs.crioConfig, 'policies'),
    signatureLookupFile: join(double.dirs.registriesD, '99-stickpin.yaml'),
  });
  const create = (over: { token?: string; socketPath?: string } = {}) =>
    createCrioRuntime({
      socketPath: over.socketPath ?? double.socketPath,
      units,
      mirror: { authority: registry.host, token: over.token ?? TOKEN },
      log: createRecordingLog(),
      paths: paths(),
    });
  const observed = async () => {
    const seen: RuntimeObservation = await runtime.observe(signal);
    if (seen.kind !== 'reachable') throw new Error(seen.reason);
    return seen;
  };
  const publish = (image: SampleImage, tags: readonly string[] = []) => {
    registry.add(`${TOKEN}/${REPOSITORY}`, image, tags);
    return `${REPOSITORY}@${image.top.digest}`;
  };
  const mirrored = () => runtime.applyMirrors([{ repository: REPOSITORY }], signal);
  const dropIn = (name: string, text: string) => {
    const path = join(double.dirs.crioDropIns, name);
    writeFileSync(path, text);
    return path;
  };

  beforeAll(async () => {
    await trixieRoot();
  });
  beforeEach(async () => {
    reloads = 0;
    reloadFailure = undefined;
    unitListeners = new Set();
    registry = await startSourceRegistry();
    double = await startCrioDouble({ skopeo: skopeoArgv(), reloadDelayMs: 20 });
    runtime = create();
  });
  afterEach(async () => {
    runtime.close();
    await double.stop();
    rmSync(double.dirs.base, { recursive: true, force: true });
    await registry.close();
  });

  const pinnedOf = (images: readonly RuntimeImage[]) => images.map(({ pinned }) => pinned);

  it('pins by digest, pulls through our mirror alone, and reports a pin only when ListImages does', async () => {
    const image = sampleImage({ seed: 'a' });
    const reference = publish(image);
    await runtime.applyPins([reference], unforced, signal);
    await mirrored();
    await runtime.pull(reference, signal);
    const seen = await observed();
    expect(seen).toMatchObject({
      name: 'cri-o 1.36.3',
      images: [{ repoTags: [], repoDigests: [reference], pinned: true }],
      renderedPins: [reference],
      renderedMirrors: [REPOSITORY],
    });
    expect(seen.filesystem?.freeBytes).toBeGreaterThan(0);
    expect(registry.requests.map(({ path }) => path)).toEqual([
      '/v2/',
      `/v2/${TOKEN}/${REPOSITORY}/manifests/${image.top.digest}`,
      `/v2/${TOKEN}/${REPOSITORY}/blobs/${image.config.digest}`,
      `/v2/${TOKEN}/${REPOSITORY}/blobs/${image.layers[0]?.digest}`,
    ]);
    await runtime.applyPins([], unforced, signal);
    await eventually(async () => expect(pinnedOf((await observed()).images)).toEqual([false]));
    expect((await observed()).renderedPins).toEqual([]);
  });

  it('knows the folders of its storage and of their driver, on any filesystem', async () => {
    const paths = await runtime.storagePaths(signal);
    expect(paths.filter((path) => paths.includes(join(path, 'vfs')))).not.toEqual([]);
  });

  it('keeps the pins of other files in effect, before and after our file', async () => {
    const [ours, theirs] = [publish(sampleImage({ seed: 'ours' })), publish(sampleImage({ seed: 'theirs' }))];
    dropIn('50-theirs.conf', `[crio.image]\npinned_images = ["${theirs}"]\n`);
    await runtime.applyPins([ours], unforced, signal);
    await mirrored();
    await runtime.pull(ours, signal);
    await runtime.pull(theirs, signal);
    expect(pinnedOf((await observed()).images)).toEqual([true, true]);
    await runtime.applyPins([], unforced, signal);
    const pinned = async () =>
      (await observed()).images.filter((image) => image.pinned).map((image) => image.repoDigests);
    await eventually(async () => expect(await pinned()).toEqual([[theirs]]));
  });

  it('writes both copies the same, world-readable, and leaves nothing half-written', async () => {
    await runtime.applyPins(['quay.example.com/a'], unforced, signal);
    const { pinsFile, persistentPinsFile, pinsLink } = paths();
    expect(readFileSync(pinsFile, 'utf8')).toBe(readFileSync(persistentPinsFile, 'utf8'));
    expect(statSync(pinsFile).mode & 0o777).toBe(0o644);
    expect(readlinkSync(pinsLink)).toBe(pinsFile);
    expect(readdirSync(dirname(pinsFile))).toEqual(['99-stickpin.conf']);
    expect(readdirSync(double.dirs.run).filter((name) => name.includes('stickpin'))).toEqual([]);
  });

  it('reloads when bytes changed or it is asked to, and not otherwise', async () => {
    await runtime.applyPins(['quay.example.com/a'], unforced, signal);
    await runtime.applyPins(['quay.example.com/a'], unforced, signal);
    expect(reloads).toBe(1);
    await runtime.applyPins(['quay.example.com/a'], { force: true }, signal);
    expect(reloads).toBe(2);
    const inode = statSync(paths().pinsFile).ino;
    await runtime.applyMirrors([{ repository: REPOSITORY }], signal);
    await runtime.applyMirrors([{ repository: REPOSITORY }], signal);
    expect(reloads).toBe(3);
    expect(statSync(paths().pinsFile).ino).toBe(inode);
  });

  it('still owes a reload that failed', async () => {
    reloadFailure = new AppError({ code: 'host/unit', message: 'no', disposition: 'retry' });
    await expect(runtime.applyPins(['quay.example.com/a'], unforced, signal)).rejects.toBe(reloadFailure);
    reloadFailure = undefined;
    await runtime.applyPins(['quay.example.com/a'], unforced, signal);
    expect(reloads).toBe(1);
  });

  it('changes nothing on a node without our files', async () => {
    await runtime.applyPins([], unforced, signal);
    await runtime.applyMirrors([], signal);
    expect(reloads).toBe(0);
    expect(readdirSync(double.dirs.crioDropIns)).toEqual([]);
    expect(readdirSync(double.dirs.registriesDropIns)).toEqual([]);
  });

  it('makes no reload at the start of the daemon when none is owed', async () => {
    await runtime.applyPins(['quay.example.com/a'], unforced, signal);
    await mirrored();
    expect(existsSync(paths().reloadMarker)).toBe(false);
    runtime.close();
    runtime = create();
    reloads = 0;
    await runtime.applyPins(['quay.example.com/a'], unforced, signal);
    await mirrored();
    expect(reloads).toBe(0);
  });

  it.each([
    ['pins', (adapter: RuntimeAdapter) => adapter.applyPins(['quay.example.com/a'], unforced, signal)],
    ['mirrors', (adapter: RuntimeAdapter) => adapter.applyMirrors([{ repository: REPOSITORY }], signal)],
  ] as const)('makes the reload that an earlier daemon owed for its %s, once', async (_what, apply) => {
    reloadFailure = new AppError({ code: 'host/unit', message: 'killed before it', disposition: 'retry' });
    await expect(apply(runtime)).rejects.toBe(reloadFailure);
    runtime.close();
    runtime = create();
    reloadFailure = undefined;
    await apply(runtime);
    await apply(runtime);
    expect(reloads).toBe(1);
    expect(existsSync(paths().reloadMarker)).toBe(false);
  });

  it('owes the reload still that a broken file of others stops half-way, after a restart of the daemon too', async () => {
    await mirrored();
    writeFileSync(double.dirs.registriesFile, '[[registry\n');
    await runtime.applyMirrors([], signal);
    expect(reloads).toBe(2);
    runtime.close();
    writeFileSync(double.dirs.registriesFile, '');
    runtime = create();
    await runtime.applyMirrors([], signal);
    await runtime.applyMirrors([], signal);
    expect(reloads).toBe(3);
  });

  it('does not report pins as rendered when they were lost or when other files changed since', async () => {
    const references = ['quay.example.com/a'];
    await runtime.applyPins(references, unforced, signal);
    expect((await observed()).renderedPins).toEqual(references);
    dropIn('50-theirs.conf', '[crio.image]\npinned_images = ["theirs"]\n');
    expect((await observed()).renderedPins).toEqual([]);
    await runtime.applyPins(references, unforced, signal);
    expect((await observed()).renderedPins).toEqual(references);
    rmSync(paths().persistentPinsFile);
    expect((await observed()).renderedPins).toEqual([]);
    await runtime.applyPins(references, unforced, signal);
    writeFileSync(paths().pinsFile, ''); // as tmpfiles.d leaves it at boot
    expect((await observed()).renderedPins).toEqual([]);
  });

  it('withholds its pins while another configuration file is broken, and names it', async () => {
    const broken = dropIn('50-broken.conf', '[crio.image\n');
    await expect(runtime.applyPins(['quay.example.com/a'], unforced, signal)).rejects.toMatchObject({
      code: 'runtime/config',
      disposition: 'wait',
      message: expect.stringContaining(broken),
    });
    expect(reloads).toBe(0);
    expect(readdirSync(double.dirs.crioDropIns)).toEqual(['50-broken.conf']);
    rmSync(broken);
    await runtime.applyPins(['quay.example.com/a'], unforced, signal);
  });

  it('reports why a reload stops half-way, and still writes its pins for the next start (docs/runtime-facts.md, fact 5)', async () => {
    const reference = publish(sampleImage({ seed: 'a' }));
    await mirrored();
    await runtime.pull(reference, signal);
    writeFileSync(double.dirs.registriesFile, '[[registry\n');
    await expect(runtime.applyPins([reference], unforced, signal)).rejects.toMatchObject(
      coded('runtime/config', double.dirs.registriesFile),
    );
    expect(await observed()).toMatchObject({ renderedPins: [reference], images: [{ pinned: false }] });
    writeFileSync(double.dirs.registriesFile, '');
    await runtime.applyPins([reference], { force: true }, signal);
    expect((await observed()).images).toMatchObject([{ pinned: true }]);
  });

  it('names the later file that overrides our pins', async () => {
    const behind = dropIn('99-z.conf', '[crio.image]\npinned_images = []\n');
    await expect(runtime.applyPins(['quay.example.com/a'], unforced, signal)).rejects.toMatchObject(
      coded('runtime/config', behind),
    );
    await runtime.applyPins([], unforced, signal);
  });

  it('notices a file that overrides our pins before CRI-O has read it, and notices its repair', async () => {
    const references = ['quay.example.com/a'];
    await runtime.applyPins(references, unforced, signal);
    expect((await observed()).pinFault).toBeUndefined();
    const faultWith = async (path: string, text: string) => {
      writeFileSync(path, text);
      const { renderedPins, pinFault } = await observed();
      expect(renderedPins).toEqual(references);
      rmSync(path);
      return pinFault;
    };
    const behind = join(double.dirs.crioDropIns, '99-z.conf');
    const broken = join(double.dirs.crioDropIns, '00-broken.conf');
    const registries = join(double.dirs.registriesDropIns, '10-broken.conf');
    expect(await faultWith(behind, '[crio.image]\npinned_images = []\n')).toEqual(
      coded('runtime/config', `${behind}, which sets pinned_images`),
    );
    expect((await faultWith(broken, '[crio.image\n'))?.message).toContain(`${broken} is broken`);
    expect((await faultWith(registries, '[[registry\n'))?.message).toContain(`${registries} is broken`);
    expect((await observed()).pinFault).toBeUndefined();
    rmSync(paths().pinsLink);
    expect(await observed()).toMatchObject({ renderedPins: [], pinFault: undefined });
  });

  it('does not touch a link or a file of that name that is not ours', async () => {
    const { pinsLink } = paths();
    symlinkSync('/etc/hostname', pinsLink);
    await expect(runtime.applyPins(['a'], unforced, signal)).rejects.toMatchObject({ code: 'runtime/config' });
    expect(readlinkSync(pinsLink)).toBe('/etc/hostname');
    rmSync(pinsLink);
    writeFileSync(pinsLink, '# mine');
    await expect(runtime.applyPins(['a'], unforced, signal)).rejects.toMatchObject({ code: 'runtime/config' });
    expect(lstatSync(pinsLink).isFile()).toBe(true);
  });

  it('names the path that it could not write', async () => {
    const blocked = join(double.dirs.base, 'var');
    writeFileSync(blocked, '');
    await expect(runtime.applyPins(['a'], unforced, signal)).rejects.toMatchObject({
      code: 'runtime/write',
      disposition: 'wait',
      message: expect.stringContaining(paths().persistentPinsFile),
    });
    expect(reloads).toBe(0);
  });

  it('keeps a mirror of the user behind ours', async () => {
    const image = sampleImage({ seed: 'theirs' });
    registry.add('theirs/coreos/etcd', image);
    const user = `[[registry]]\nprefix = "quay.example.com"\nlocation = "quay.example.com"\n\n[[registry.mirror]]\nlocation = "${registry.host}/theirs"\ninsecure = true\n`;
    writeFileSync(double.dirs.registriesFile, user);
    await mirrored();
    await runtime.pull(`${REPOSITORY}@${image.top.digest}`, signal);
    const manifests = registry.requests.filter(({ kind }) => kind === 'manifest');
    expect(manifests.map(({ path, status }) => [path.slice(0, path.lastIndexOf('/')), status])).toEqual([
      [`/v2/${TOKEN}/${REPOSITORY}/manifests`, 404],
      ['/v2/theirs/coreos/etcd/manifests', 200],
    ]);
  });

  it('takes the mirrors away again', async () => {
    const reference = publish(sampleImage({ seed: 'a' }));
    await mirrored();
    await runtime.applyMirrors([], signal);
    expect((await observed()).renderedMirrors).toEqual([]);
    await expect(runtime.pull(reference, signal)).rejects.toMatchObject({ code: 'runtime/pull-failed' });
    expect(registry.requests).toEqual([]);
  });

  it('points out mirrors to the registry of an earlier run', async () => {
    await runtime.applyMirrors([{ repository: REPOSITORY }], signal);
    runtime.close();
    runtime = create({ token: 'f'.repeat(32) });
    expect((await observed()).renderedMirrors).not.toEqual([REPOSITORY]);
    expect((await observed()).renderedMirrors).not.toEqual([]);
  });

  it('names broken registries configuration, but can always take mirrors away', async () => {
    await runtime.applyMirrors([{ repository: REPOSITORY }], signal);
    writeFileSync(double.dirs.registriesFile, '[[registry\n');
    await expect(runtime.applyMirrors([{ repository: 'quay.example.com/b' }], signal)).rejects.toMatchObject(
      coded('runtime/config', double.dirs.registriesFile),
    );
    await runtime.applyMirrors([], signal);
    expect((await observed()).renderedMirrors).toEqual([]);
  });

  it('moves a tag at activation and takes it away, the image staying under its digest', async () => {
    const reference = publish(sampleImage({ seed: 'a' }), ['v1']);
    await mirrored();
    await runtime.pull(reference, signal);
    await runtime.pull(`${REPOSITORY}:v1`, signal);
    expect((await observed()).images).toMatchObject([{ repoTags: [`${REPOSITORY}:v1`], repoDigests: [reference] }]);
    expect((await runtime.image(`${REPOSITORY}:v1`, signal))?.repoDigests).toEqual([reference]);
    await runtime.removeTag(`${REPOSITORY}:v1`, signal);
    expect(await runtime.image(`${REPOSITORY}:v1`, signal)).toBeUndefined();
    expect((await observed()).images).toMatchObject([{ repoTags: [], repoDigests: [reference] }]);
    await runtime.removeTag(`${REPOSITORY}:v1`, signal);
  });

  it('takes one of two tags away from a pinned image, which keeps the other one and its pin', async () => {
    const reference = publish(sampleImage({ seed: 'a' }), ['v1', 'v2']);
    await runtime.applyPins([reference], unforced, signal);
    await mirrored();
    for (const name of [reference, `${REPOSITORY}:v1`, `${REPOSITORY}:v2`]) await runtime.pull(name, signal);
    await runtime.removeTag(`${REPOSITORY}:v1`, signal);
    expect((await observed()).images).toMatchObject([
      { repoTags: [`${REPOSITORY}:v2`], repoDigests: [reference], pinned: true },
    ]);
  });

  it('names the reason of a failed pull', async () => {
    const layer = sampleLayer({ seed: 'layer' });
    const image = sampleImage({ seed: 'a', layers: [layer] });
    const reference = publish(image);
    await mirrored();
    registry.breakDown(layer.digest, { kind: 'corrupt', atByte: 5_000 });
    await expect(runtime.pull(reference, signal)).rejects.toMatchObject({ code: 'runtime/digest-mismatch' });
    registry.mend(layer.digest);
    registry.drop(layer.digest);
    await expect(runtime.pull(reference, signal)).rejects.toMatchObject({ code: 'runtime/not-found' });
    registry.drop(image.top.digest);
    await expect(runtime.pull(reference, signal)).rejects.toMatchObject({ code: 'runtime/not-found' });
    writeFileSync(double.dirs.policyFile, '{"default": [{"type": "reject"}]}');
    registry.add(`${TOKEN}/${REPOSITORY}`, image);
    await expect(runtime.pull(reference, signal)).rejects.toMatchObject({ code: 'runtime/policy' });
  });

  it('cancels a pull on the wire', async () => {
    const layer = sampleLayer({ seed: 'layer' });
    const reference = publish(sampleImage({ seed: 'a', layers: [layer] }));
    await mirrored();
    registry.breakDown(layer.digest, { kind: 'stall', atByte: 100 });
    const stop = new AbortController();
    const pull = runtime.pull(reference, stop.signal);
    const refused = expect(pull).rejects.toMatchObject({ code: 'runtime/cancelled' });
    await eventually(() => expect(registry.bytesSent(layer.digest)).toBe(100), 20_000);
    stop.abort();
    await refused;
  });

  it('reports a runtime that is absent or dies during a pull as unreachable, and finds it again', async () => {
    const layer = sampleLayer({ seed: 'layer' });
    const reference = publish(sampleImage({ seed: 'a', layers: [layer] }));
    await mirrored();
    registry.breakDown(layer.digest, { kind: 'stall', atByte: 100 });
    const refused = expect(runtime.pull(reference, signal)).rejects.toMatchObject({
      code: 'runtime/unreachable',
      disposition: 'retry',
    });
    await eventually(() => expect(registry.bytesSent(layer.digest)).toBe(100), 20_000);
    const { base } = double.dirs;
    await double.kill();
    await refused;
    expect(await runtime.observe(signal)).toMatchObject({
      kind: 'unreachable',
      reason: expect.stringContaining('crio.sock'),
    });
    double = await startCrioDouble({ base, skopeo: skopeoArgv(), reloadDelayMs: 20 });
    await eventually(async () => expect((await runtime.observe(signal)).kind).toBe('reachable'), 10_000);
  });

  it('signals changes of the unit and of configuration files', async () => {
    let changes = 0;
    const stop = runtime.onChange(() => {
      changes += 1;
    });
    for (const listener of unitListeners) listener();
    expect(changes).toBe(1);
    let written = 0;
    await eventually(() => {
      // The watch takes a moment to begin; each look writes another change.
      written += 1;
      dropIn('10-any.conf', `# ${written}\n`);
      expect(changes).toBeGreaterThan(1);
    });
    stop();
    expect(unitListeners.size).toBe(0);
  });
});

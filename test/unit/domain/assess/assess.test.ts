import { describe, expect, it } from 'vitest';
import type { VerifiedBundle } from '../../../../src/domain/model/bundle.ts';
import type { MissingBlob } from '../../../../src/domain/model/medium.ts';
import type { TaskFailure } from '../../../../src/domain/state/memory.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import {
  allListed,
  found,
  judge,
  layer,
  listed,
  medium,
  NOON,
  observation,
  POLICY,
  pullOf,
  reachable,
  referenceOf,
  refused,
  type Scene,
  spoken,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';
import { textOf, told } from '../../../support/daemon/told.ts';

const bundle = verified();
const adopted = stored(bundle);
const stick = medium('sdb1', [found(bundle)]);
const absent = (...names: readonly string[]): MissingBlob[] =>
  names.map((name) => ({ digest: layer(name).digest, why: 'absent' }));
const phase = (over: Partial<Scene>, entry: StoredBundle = adopted) => judge(observation(over), [entry]).first;

describe('assess: who needs the stick here', () => {
  const silent = { name: 'worker-3', isAbsent: false, status: { version: 1, releases: [] } } as const;
  const needed = (search: 'short' | 'long', readyMsAgo: number, pluggedMsAgo = readyMsAgo) => {
    const fleet = { self: 'worker-2', nodes: [{ name: 'worker-2', isAbsent: false }, silent], peers: [], search };
    const entry = stored(bundle, { readyAt: NOON - readyMsAgo });
    const arrivals = new Map([[stick.mediumId, { at: NOON - pluggedMsAgo, sequences: new Map() }]]);
    const scene = { media: [stick], runtime: reachable({ images: allListed(bundle) }), fleet };
    return judge(observation({ ...scene, arrivals }), [entry], {
      ...POLICY,
      fleet: { ...POLICY.fleet, enabled: true, absent: 60_000 },
    }).first?.neededBy;
  };

  it('is no node that has not begun for fleet.absent since the release was ready and nodes were looked for', () => {
    expect(needed('long', 59_000)).toEqual({ loading: 1, all: 2 });
    expect(needed('short', 61_000)).toEqual({ loading: 1, all: 2 });
    expect(needed('long', 61_000)).toBeUndefined();
  });

  it('is one for fleet.absent after the stick of an old release came back', () => {
    const old = 14 * 24 * 60 * 60_000;
    expect(needed('long', old, 59_000)).toEqual({ loading: 1, all: 2 });
    expect(needed('long', old, 61_000)).toBeUndefined();
  });
});

describe('assess: what other nodes load from a stick', () => {
  const policy = { ...POLICY, fleet: { ...POLICY.fleet, enabled: true }, retention: { ...POLICY.retention } };
  const fleetOf = (arch: string) => ({
    self: 'worker-2',
    nodes: [{ name: 'worker-3', isAbsent: false, status: { version: 1 as const, arch, releases: [] } }],
    peers: [],
  });
  const local = (...bundles: readonly VerifiedBundle[]) =>
    new Set(bundles.flatMap(({ contents }) => [...contents.images, ...contents.layers].map(({ digest }) => digest)));

  it.each(['kept', 'metadata'] as const)('is judged by the blobs on the disk, with retention.blobs = "%s"', (blobs) => {
    const seen = (localBlobs: Scene['localBlobs'], over: Partial<Parameters<typeof reachable>[0]> = {}) =>
      judge(
        observation({
          media: [stick],
          localBlobs,
          fleet: fleetOf('amd64'),
          runtime: reachable({ images: allListed(bundle), ...over }),
        }),
        [stored(bundle, { readyAt: NOON })],
        { ...policy, retention: { ...policy.retention, blobs } },
      ).first?.neededBy;
    const [first, ...others] = local(bundle);
    expect(seen(new Set())).toEqual({ loading: 1, all: 2 });
    expect(seen(new Set(others))).toEqual({ loading: 1, all: 2 });
    expect(seen(local(bundle))).toBeUndefined();
    const manifests = new Set(bundle.contents.images.map(({ digest }) => digest));
    expect(seen(manifests, { layerStorage: 'both' })).toBeUndefined();
    expect(first).toBeDefined();
  });

  it('counts a bundle for nodes of another architecture, and none that is not trusted', () => {
    const foreign = verified({ arch: 'arm64' });
    const scene = observation({ media: [medium('sdb1', [found(foreign)])], fleet: fleetOf('arm64') });
    expect(judge(scene, [], policy).assessment.rejections).toMatchObject([{ neededBy: { loading: 1, all: 2 } }]);
    const own = { ...scene, fleet: fleetOf('amd64') };
    expect(judge(own, [], policy).assessment.rejections[0]?.neededBy).toBeUndefined();
    const refusedHere = { ...scene, media: [stick], fleet: fleetOf('amd64') };
    const verdict = { bundleId: bundle.bundleId, verdict: 'rejected', at: NOON } as const;
    const rejected = judge(refusedHere, [], policy, { verdicts: [verdict] }).assessment.rejections;
    expect(rejected).toMatchObject([{ reason: { code: 'trust/rejected' } }]);
    expect(rejected[0]?.neededBy).toBeUndefined();
  });
});

describe('assess: what media offer', () => {
  it('pulls the images of one volume, and names the blob that no volume has', () => {
    const one = medium('sdb1', [found(bundle, absent('api', 'etcd'))]);
    const two = medium('sdc1', [found(bundle, absent('api', 'base'))]);
    expect(phase({ media: [one, two] })?.pullableImages.map(({ component }) => component)).toEqual(['etcd']);
    const held = phase({ media: [one, two], runtime: reachable({ images: [listed(referenceOf('etcd'))] }) });
    expect(held).toMatchObject({ phase: 'held', hold: 'media', reason: { code: 'bundle/blob-missing' } });
    expect(textOf(held?.reason)).toBe(
      `ocp 4.13.7 lacks 1 blob on sdb1, sdc1. The first blob is ${layer('api').digest} (absent). 1/2 images are present. Plug in the stick that carries the rest, or copy the bundle again`,
    );
  });

  it('does not count as missing what the runtime has already', () => {
    const volume = medium('sdb1', [found(bundle, absent('base', 'etcd', 'api'))]);
    const held = phase({ media: [volume], runtime: reachable({ images: [listed(referenceOf('etcd'))] }) });
    expect(textOf(held?.reason)).toContain(`lacks 1 blob on sdb1. The first blob is ${layer('api').digest}`);
  });

  it('counts an image as missing that the runtime lists and has not unpacked', () => {
    const seen = (isUnpacked?: false) => {
      const images = allListed(bundle).map((image) => ({ ...image, ...(isUnpacked === false && { isUnpacked }) }));
      return phase({ media: [stick], runtime: reachable({ images }) });
    };
    expect(seen()).toMatchObject({ phase: 'ready', absentImages: [] });
    expect(seen(false)).toMatchObject({ phase: 'preloading', absentImages: bundle.contents.images });
    expect(seen(false)?.pullableImages).toEqual(bundle.contents.images);
  });

  it('combines an image from two volumes, or from a medium with another bundle', () => {
    const media = [
      medium('sdb1', [found(bundle, absent('etcd', 'api'))]),
      medium('sdc1', [found(bundle, absent('base'))]),
    ];
    expect(phase({ media })?.pullableImages).toHaveLength(2);
    const other = verified({ sequence: 8, version: '4.13.8' });
    expect(phase({ media: [medium('sdb1', [found(other)])] })?.pullableImages).toHaveLength(2);
  });

  it('can not pull an image whose manifest is on no medium', () => {
    const volume = medium('sdb1', [
      found(bundle, [{ digest: bundle.contents.images[0]?.digest ?? layer('').digest, why: 'damaged' }]),
    ]);
    expect(phase({ media: [volume] })?.pullableImages.map(({ component }) => component)).toEqual(['api']);
  });

  it('uses no blob of a rejected bundle or of an unread medium', () => {
    const media = [medium('sdb1', [refused()]), medium('sdc1', { kind: 'mounted' })];
    expect(phase({ media })).toMatchObject({ phase: 'held', hold: 'media', pullableImages: [] });
  });

  it('lists rejections with all known data', () => {
    const foreign = verified({ arch: 'arm64' });
    const { assessment } = judge(observation({ media: [medium('sdb1', [refused('bad signature'), found(foreign)])] }));
    expect(assessment.adoptions).toEqual([]);
    expect(assessment.rejections).toMatchObject([
      { label: 'sdb1', name: undefined, bundleId: undefined, reason: { message: 'bad signature' } },
      { label: 'sdb1', name: 'ocp@4.13.7', bundleId: foreign.bundleId, reason: { code: 'bundle/arch' } },
    ]);
  });

  it('keeps an adopted bundle as a source at any sequence and age', () => {
    const old = stored(verified({ sequence: 1, expires: '2020-01-01T00:00:00Z' }));
    const newer = stored(verified({ sequence: 9, version: '4.13.9' }), { activatedAt: NOON });
    const { assessment } = judge(observation({ media: [medium('sdb1', [found(old)])] }), [old, newer]);
    expect(assessment.rejections).toEqual([]);
    expect(assessment.bundles[0]).toMatchObject({ phase: 'preloading', media: ['sdb1'] });
  });
});

describe('assess: what is degraded', () => {
  const failure = (name: string, over: Partial<TaskFailure>): TaskFailure => ({
    task: pullOf(bundle, name),
    attempts: 1,
    reason: { code: `code/${name}`, message: name },
    retryAt: NOON,
    ...over,
  });

  it('shows a fault that is not retried before the fault that was retried most often', () => {
    const often = failure('etcd', { attempts: 9 });
    expect(phase({ media: [stick], failures: [failure('api', {}), often] })?.trouble?.code).toBe('code/etcd');
    const final = failure('api', { retryAt: undefined });
    expect(phase({ media: [stick], failures: [often, final] })?.trouble?.code).toBe('code/api');
  });

  it('is degraded only by faults that quick retries did not repair', () => {
    const quick = failure('etcd', { attempts: 4 });
    expect(phase({ media: [stick], failures: [quick] })?.degraded).toBeUndefined();
    const late = failure('api', { isExhausted: true, attempts: 2 });
    expect(phase({ media: [stick], failures: [quick, late] })?.degraded?.code).toBe('code/api');
    expect(phase({ media: [stick], failures: [failure('etcd', { retryAt: undefined })] })?.degraded?.code).toBe(
      'code/etcd',
    );
  });

  it('counts all refusals by policy.json as one fault', () => {
    const refused = (name: string) => failure(name, { reason: { code: 'runtime/policy', message: `no ${name}` } });
    const over = { media: [stick], failures: [refused('etcd'), refused('api')] };
    expect(textOf(phase(over)?.trouble)).toBe(
      'policy.json of this node refuses 2 images of ocp 4.13.7. The runtime says of the first one: no etcd. Let /etc/containers/policy.json accept them',
    );
  });

  it('shows the failed pull of an image that it shares with another bundle', () => {
    const other = stored(verified({ name: 'tools', sequence: 2 }));
    expect(phase({ media: [stick], failures: [failure('api', {})] }, other)?.trouble).toBeDefined();
  });

  it('shows no fault of other bundles', () => {
    const other = stored(verified({ name: 'tools', sequence: 2, images: { tools: ['tools'] } }));
    expect(phase({ media: [stick], failures: [failure('api', {})] }, other)?.trouble).toBeUndefined();
  });
});

describe('assess: a delta', () => {
  const base = verified({ version: '4.13.6', sequence: 6, images: { old: ['base', 'shared'] } });
  const delta = verified({
    images: { etcd: ['base', 'etcd'], api: ['shared', 'api'] },
    layers: { base: { inBase: true }, shared: { inBase: true } },
    update: { base: base.bundleId },
    annotations: { 'io.stickpin.base': 'ocp@4.13.6' },
  });
  const leftOut: MissingBlob[] = ['base', 'shared'].map((name) => ({ digest: layer(name).digest, why: 'in-base' }));
  const deltaStick = medium('sdb1', [found(delta, leftOut)]);
  const judged = (over: Partial<Scene>, ...bundles: readonly StoredBundle[]) =>
    judge(observation({ media: [deltaStick], ...over }), bundles).assessment.bundles.at(-1);

  it('is held while the node never had its base, and names it', () => {
    const entry = judged({}, stored(delta));
    expect(entry).toMatchObject({ phase: 'held', hold: 'base', reason: { code: 'engine/no-base' } });
    expect(textOf(entry?.reason)).toMatch(
      /^ocp 4\.13\.7 needs base ocp@4\.13\.6, which this node has never had\. It lacks 2 layers\. .*Plug in the stick with ocp@4\.13\.6, /,
    );
    const { decision } = judge(observation({ media: [deltaStick] }), [stored(delta)]);
    expect(spoken(decision.effects)).toEqual(['apply-pins 2']);
  });

  it('names the retired base whose stick has the layers, and the full bundle when the base is a delta too', () => {
    const retired = stored(base, { readyAt: NOON, retiredAt: NOON + 1 });
    expect(textOf(judged({}, retired, stored(delta))?.reason)).toContain(
      'which was retired on this node. It lacks 2 layers.',
    );
    const first = verified({ version: '4.13.5', sequence: 5, images: { old: ['base', 'shared'] } });
    const middle = verified({
      version: '4.13.6',
      sequence: 6,
      images: { old: ['base', 'shared'] },
      layers: { base: { inBase: true }, shared: { inBase: true } },
      update: { base: first.bundleId },
    });
    const last = { ...delta, payload: { ...delta.payload, update: { base: middle.bundleId } } };
    const gone = [first, middle].map((one) => stored(one, { readyAt: NOON, retiredAt: NOON + 1 }));
    const { assessment } = judge(observation({ media: [medium('sdb1', [found(last, leftOut)])] }), [
      ...gone,
      stored(last),
    ]);
    expect(textOf(assessment.bundles.at(-1)?.reason)).toContain('Plug in the stick with ocp@4.13.5, or');
  });

  it('that was proven and is wiped asks for the stick of its retired base too', () => {
    const marks = { readyAt: NOON, activatedAt: NOON, activeAt: NOON, provenAt: NOON };
    const retired = stored(base, { ...marks, retiredAt: NOON + 1 });
    const entry = judged({ runtime: reachable({ images: [] }) }, retired, stored(delta, marks));
    expect(entry).toMatchObject({ phase: 'proven', reason: { code: 'engine/no-base' } });
    expect(textOf(entry?.degraded)).toMatch(
      /^2 of 2 images of ocp 4\.13\.7 are missing\. .* Plug in the stick of ocp 4\.13\.7, and the one with its base ocp@4\.13\.6$/,
    );
  });

  it('is held while images of an adopted base are gone, whether its own stick is in or not', () => {
    for (const media of [[deltaStick], []]) {
      const entry = judged({ media }, stored(base), stored(delta));
      expect(entry).toMatchObject({ phase: 'held', hold: 'base' });
      expect(textOf(entry?.reason)).toContain('which is not complete on this node. It lacks 2 layers.');
    }
  });

  it('is preloaded once the images of its base are there', () => {
    const entry = judged({ runtime: reachable({ images: allListed(base) }) }, stored(base), stored(delta));
    expect(entry).toMatchObject({ phase: 'preloading', pullableImages: delta.contents.images });
  });

  it('is preloaded while a stick with its base is plugged in', () => {
    const media = [deltaStick, medium('sdc1', [found(base)])];
    expect(judged({ media }, stored(delta))).toMatchObject({ phase: 'preloading' });
  });

  it('is not held by layers of images that are present', () => {
    const present = delta.contents.images.map(({ reference }) => listed(reference));
    expect(judged({ runtime: reachable({ images: present }) }, stored(delta))).toMatchObject({ phase: 'ready' });
  });

  it('names the blobs that the stick lacks, not those of the base', () => {
    const media = [medium('sdb1', [found(delta, [...leftOut, ...absent('etcd', 'api')])])];
    const entry = judged({ media, runtime: reachable({ images: allListed(base) }) }, stored(base), stored(delta));
    expect(entry).toMatchObject({ phase: 'held', hold: 'media' });
    expect(textOf(entry?.reason)).toMatch(/lacks 2 blobs on sdb1\. The first blob is sha256:[0-9a-f]{64} \(absent\)/);
  });
});

describe('assess: images that a complete release has lost', () => {
  const large = verified({
    images: Object.fromEntries(Array.from({ length: 8 }, (_, index) => [`image-${index}`, ['base', `own-${index}`]])),
  });
  const entry = (over: Partial<StoredBundle>) => stored(large, { readyAt: NOON, ...over });
  const judged = (over: Partial<Scene>, bundle: StoredBundle) => judge(observation(over), [bundle]).first;

  it('is degraded with the first names and the number of the others, in any phase', () => {
    const first5 = [0, 1, 2, 3, 4].map((index) => referenceOf(`image-${index}`)).join(', ');
    const degraded = {
      code: 'engine/image-missing',
      message: `8 of 8 images of ocp 4.13.7 are missing. The missing ones are ${first5} and 3 more. Plug in the stick of ocp 4.13.7`,
    };
    expect(told(judged({}, entry({})))).toMatchObject({ phase: 'held', degraded });
    expect(told(judged({}, entry({ activatedAt: NOON })))).toMatchObject({ phase: 'activated', degraded });
  });

  it('is not degraded while they can be pulled, before it was ready, when it is retired, or while the runtime is unknown', () => {
    const carried = { media: [medium('sdb1', [found(large)])] };
    expect(judged(carried, entry({}))?.degraded).toBeUndefined();
    expect(judged({}, stored(large))?.degraded).toBeUndefined();
    expect(judged({}, entry({ activatedAt: 1, retiredAt: 2 }))?.degraded).toBeUndefined();
    expect(judged({ runtime: { kind: 'unreachable', reason: 'away' } }, entry({}))?.degraded).toBeUndefined();
  });
});

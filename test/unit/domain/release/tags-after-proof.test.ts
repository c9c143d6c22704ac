import { describe, expect, it } from 'vitest';
import { catalogOf } from '../../../../src/domain/decide/catalog.ts';
import type { Image, VerifiedBundle } from '../../../../src/domain/model/bundle.ts';
import type { RuntimeContainer, RuntimeImage } from '../../../../src/domain/model/image.ts';
import { needsContainers } from '../../../../src/domain/release/running-releases.ts';
import { givenAfterProofMessage } from '../../../../src/domain/report/events/release-events.ts';
import type { Policy } from '../../../../src/domain/settings/settings.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import {
  type BundleSpec,
  digestOf,
  judge,
  listed,
  NOON,
  observation,
  pinsOf,
  reachable,
  type Scene,
  spoken,
  stored,
  storedState,
  UNSERVED,
  verified,
} from '../../../support/daemon/scenario.ts';

const HOUR = 60 * 60_000;
const SWSS = 'docker.io/library/docker-swss';
const LATEST = `${SWSS}:latest`;
const streams: Policy['streams'] = { sonic: { tag_after_proof: ['latest'], replace_stopped: ['swss'] } };
const POLICY: Policy = { ...UNSERVED, streams };

const referenceIn = (version: number, repository = SWSS) => `${repository}@${digestOf(`${repository} ${version}`)}`;
const versionTag = (version: number, repository = SWSS) => `${repository}:${version}.0.0`;

/** One image of swss, and whatever `over` has. */
function sonic(version: number, over: BundleSpec = {}): VerifiedBundle {
  const bundle = verified({
    name: 'sonic',
    version: `${version}.0.0`,
    sequence: version,
    images: { [`swss-${version}`]: [`layer-${version}`] },
    imageOver: {
      [`swss-${version}`]: {
        reference: referenceIn(version),
        digest: digestOf(`${SWSS} ${version}`),
        tags: [versionTag(version)],
      },
    },
    ...over,
  });
  return bundle;
}

const activated = (bundle: VerifiedBundle, hour: number, marks: Partial<StoredBundle> = {}) =>
  stored(bundle, { readyAt: NOON, activatedAt: NOON + hour * HOUR, activeAt: NOON + hour * HOUR, ...marks });
const proven = (bundle: VerifiedBundle, hour: number, marks: Partial<StoredBundle> = {}) =>
  activated(bundle, hour, { provenAt: NOON + hour * HOUR + 1, ...marks });

/** The image of a version, with its own tag and what `tags` adds. */
const image = (version: number, ...tags: readonly string[]): RuntimeImage =>
  listed(referenceIn(version), true, [versionTag(version), ...tags]);
const withTag = (tag: string) => (one: Image) => ({ ...one, tags: [tag] });
/** What the node had before stickpin came. */
const local = (...repoTags: readonly string[]): RuntimeImage => ({
  imageId: digestOf('local'),
  repoTags,
  repoDigests: [],
  pinned: false,
});

/** Of the unit, made from version 1. */
const CONTAINER: RuntimeContainer = {
  containerId: 'c1',
  key: 'swss',
  attempt: 0,
  imageNames: [digestOf(`id ${referenceIn(1)}`)],
  state: 'exited',
  startedAt: NOON,
  exitCode: 0,
};

interface Given extends Partial<Scene> {
  readonly policy?: Policy;
}

function look(images: readonly RuntimeImage[], bundles: readonly StoredBundle[], given: Given = {}) {
  const { policy = POLICY, ...over } = given;
  const observed = observation({
    now: NOON + 24 * HOUR,
    runtime: reachable({ images }),
    pinsRequested: { references: pinsOf(...bundles), unpinned: '', attempts: 1, at: NOON },
    ...over,
  });
  const pulledByUs = new Set(bundles.flatMap(({ contents }) => contents.images.map(({ reference }) => reference)));
  return { observed, ...judge(observed, bundles, policy, { pulledByUs }) };
}
const dueOf = (...args: Parameters<typeof look>) =>
  look(...args).assessment.tags.due.map(({ tag, reference }) => `${tag} ${reference}`);
const moves = (version: number) => [`${LATEST} ${referenceIn(version)}`];

describe('streams.NAME.tag_after_proof', () => {
  const [v1, v2, v3] = [sonic(1), sonic(2), sonic(3)];

  it.each<[when: string, images: readonly RuntimeImage[], bundles: StoredBundle[], due: string[], over?: Given]>([
    ['before the proof nothing', [image(1)], [activated(v1, 1)], []],
    ['after the proof the tag', [image(1)], [proven(v1, 1)], moves(1)],
    ['once it is there nothing', [image(1, LATEST)], [proven(v1, 1)], []],
    ['without the setting nothing', [image(1)], [proven(v1, 1)], [], { policy: UNSERVED }],
    ['from an image of the node to the proven one', [image(1), local(LATEST)], [proven(v1, 1)], moves(1)],
    [
      'nothing while the next release has to prove itself',
      [image(1, LATEST), image(2)],
      [proven(v1, 1), activated(v2, 2)],
      [],
    ],
    [
      'back to the proven one while the next has to prove itself',
      [image(1), image(2)],
      [proven(v1, 1), activated(v2, 2)],
      moves(1),
    ],
    ['to the next release after its proof', [image(1, LATEST), image(2)], [proven(v1, 1), proven(v2, 2)], moves(2)],
    ['never to an older one that is the fallback', [image(1), image(2, LATEST)], [proven(v1, 1), proven(v2, 2)], []],
    [
      'nothing when the next release fell back before its proof',
      [image(1, LATEST), image(2)],
      [proven(v1, 1), activated(v2, 2, { rolledBackAt: NOON + 3 * HOUR })],
      [],
    ],
    [
      'back when a proven release was rolled back',
      [image(1), image(2, LATEST)],
      [activated(v1, 4, { provenAt: NOON + 2 }), proven(v2, 2, { rolledBackAt: NOON + 3 * HOUR })],
      moves(1),
    ],
    [
      'not to a release that was rolled back and is activated again, before it is proven again',
      [image(1, LATEST), image(2)],
      [proven(v1, 1), activated(v2, 4, { provenAt: NOON + 2 * HOUR, rolledBackAt: NOON + 3 * HOUR })],
      [],
    ],
    [
      'to the release before when the proven one is retired',
      [image(1), image(2, LATEST)],
      [proven(v1, 1), proven(v2, 2, { retiredAt: NOON + 3 * HOUR })],
      moves(1),
    ],
    [
      'to an older version that was activated and proven later',
      [image(2), image(3, LATEST)],
      [proven(v3, 1), proven(v2, 2)],
      moves(2),
    ],
  ])('%s', (_when, images, bundles, due, over) => {
    expect(dueOf(images, bundles, over)).toEqual(due);
  });

  it('mirrors the repository, gives the tag, and answers a pull of it then', () => {
    const bundles = [proven(v1, 1)];
    expect(spoken(look([image(1)], bundles).decision.effects)).toEqual(['apply-mirrors docker-swss']);
    const runtime = reachable({ images: [image(1)], renderedMirrors: [SWSS] });
    expect(spoken(look([], bundles, { runtime }).decision.effects)).toEqual(['restore-tags docker-swss:latest']);
    const served: Policy = { ...POLICY, serve: { activated: 'digests-and-tags', except: [] } };
    const offered = (stored: readonly StoredBundle[]) => {
      const { observed, assessment } = look([image(1, LATEST)], stored, { policy: served });
      return [...(catalogOf(observed, assessment, served).get(SWSS)?.tags.keys() ?? [])].sort();
    };
    expect(offered(bundles)).toEqual(['1.0.0', 'latest']);
    expect(offered([activated(v1, 1)])).toEqual(['1.0.0']);
  });

  it('counts what takes the tag away since the proof, or a rollback to the release, only', () => {
    const at = NOON + 24 * HOUR;
    const tagsGiven = [3, 2, 1].map((minutes) => ({ tag: LATEST, at: at - minutes * 60_000 }));
    const before = proven(v1, 1);
    const after = { ...before, provenAt: at - 30_000 };
    expect(look([image(1), local(LATEST)], [before], { tagsGiven }).assessment.tags).toMatchObject({
      due: [],
      contested: [{}],
    });
    const again = { ...before, activatedAt: at - 30_000 };
    for (const one of [after, again])
      expect(look([image(1), local(LATEST)], [one], { tagsGiven }).assessment.tags).toMatchObject({
        due: [{}],
        contested: [],
      });
  });

  it('leaves a tag alone that a kept release of any stream names itself', () => {
    const naming = (name: string) =>
      verified({ name, version: '9.0.0', sequence: 9, imageOver: { etcd: { tags: [LATEST] } } });
    expect(dueOf([image(1)], [proven(v1, 1), stored(naming('other'))])).toEqual([]);
    expect(dueOf([image(1)], [proven(v1, 1), stored(naming('sonic'), { retiredAt: NOON })])).toEqual(moves(1));
  });

  it('leaves a tag of two streams to the first of them', () => {
    const other = sonic(2, { name: 'other' });
    const both: Policy = { ...POLICY, streams: { ...streams, other: { tag_after_proof: ['latest'] } } };
    const gone = proven(sonic(3), 1, { retiredAt: NOON + 2 * HOUR });
    for (const bundles of [
      [proven(v1, 1), proven(other, 2)],
      [gone, proven(other, 2), proven(v1, 3)],
    ]) {
      expect(dueOf([image(1), image(2)], bundles, { policy: both })).toEqual(moves(1));
    }
  });

  it('gives the tag in each repository of an image, and in none with several images', () => {
    const mirror = 'acr.example.com/docker-swss';
    const shared = 'acr.example.com/all';
    const many = verified({
      name: 'sonic',
      images: { swss: ['a'], bgp: ['b'], lldp: ['c'] },
      imageOver: {
        swss: { reference: referenceIn(1), tags: [versionTag(1), versionTag(1, mirror)] },
        bgp: { reference: referenceIn(1, shared), tags: [] },
        lldp: { reference: referenceIn(2, shared), tags: [] },
      },
    });
    const images = many.contents.images.map(({ reference, tags }) => listed(reference, true, tags));
    expect(dueOf(images, [proven(many, 1)])).toEqual([...moves(1), `${mirror}:latest ${referenceIn(1)}`]);
  });

  it('says that in one line', () => {
    const stray = { tag: LATEST, reference: referenceIn(2), digest: digestOf('x'), bundleId: v2.bundleId, provenAt: 1 };
    expect(givenAfterProofMessage([{ ...stray, names: referenceIn(1) }], stored(v2))).toBe(
      `sonic 2.0.0 is the release that was proven last, so 1 tag names its image now, first ${LATEST}, which named ${referenceIn(1)}`,
    );
    expect(
      givenAfterProofMessage(
        [
          { ...stray, names: undefined },
          { ...stray, names: undefined },
        ],
        stored(v2),
      ),
    ).toBe(
      `sonic 2.0.0 is the release that was proven last, so 2 tags name their images now, first ${LATEST}, which named nothing`,
    );
  });

  it('removes an image with such a tag once its release is retired and no other is proven', () => {
    const gone = proven(v1, 1, { retiredAt: NOON + 2 * HOUR, removeImages: true });
    const unpinned = { ...image(1, LATEST), pinned: false };
    const effects = (tags: RuntimeImage, policy = POLICY) =>
      look([tags], [gone], { containers: [], policy }).decision.effects.flatMap((effect) =>
        effect.kind === 'remove-images' ? effect.images : [],
      );
    expect(effects(unpinned)).toEqual([{ imageId: unpinned.imageId, containerIds: [] }]);
    expect(effects(unpinned, UNSERVED)).toEqual([]);
    expect(effects({ ...unpinned, repoTags: [...unpinned.repoTags, `${SWSS}:mine`] })).toEqual([]);
  });
});

describe('a tag after the proof of a release that is retired', () => {
  it('goes with the other tags of that release when the image stays for another one', () => {
    const [v1, v2] = [sonic(1), sonic(2, { imageOver: {} })];
    const same = { ...v2, contents: { ...v1.contents, images: v1.contents.images.map(withTag(versionTag(2))) } };
    const gone = proven(v1, 1, { retiredAt: NOON + 23 * HOUR, removeImages: true });
    const over = {
      containers: [],
      imageUses: { uses: [], faults: [], isComplete: true },
      boot: { bootId: 'b', uptimeMs: HOUR },
    };
    const removed = (bundles: readonly StoredBundle[]) =>
      look([image(1, versionTag(2), LATEST)], bundles, over).decision.effects.flatMap((effect) =>
        effect.kind === 'remove-images' ? (effect.tags ?? []) : [],
      );
    expect(removed([gone, activated(same, 2)])).toEqual([versionTag(1), LATEST]);
    expect(removed([gone, proven(same, 2)])).toEqual([versionTag(1)]);
  });
});

describe('an image of the node under a tag of such a stream', () => {
  const mirror = 'acr.example.com/docker-swss';
  const v1 = sonic(1, {
    imageOver: { 'swss-1': { reference: referenceIn(1), tags: [versionTag(1, mirror), versionTag(1)] } },
  });
  const [pulled] = [listed(referenceIn(1))];

  it('keeps the tag, which is neither lost nor answered, and gets the others', () => {
    const served: Policy = { ...POLICY, serve: { activated: 'digests-and-tags', except: [] } };
    const { observed, assessment } = look([pulled, local(versionTag(1), LATEST)], [activated(v1, 1)], {
      policy: served,
    });
    expect(assessment.tags.stray).toEqual([]);
    expect(assessment.tags.local.get(v1.bundleId)).toEqual([
      { reference: referenceIn(1), tag: versionTag(1), others: [versionTag(1, mirror)] },
    ]);
    expect(catalogOf(observed, assessment, served).get(SWSS)?.tags).toEqual(new Map());
  });

  it('keeps latest too, even if somebody counts the release as proven, until the next one is', () => {
    const v2 = sonic(2);
    const here = [pulled, local(versionTag(1), LATEST)];
    expect(dueOf(here, [proven(v1, 1)])).toEqual([]);
    expect(dueOf([...here, image(2)], [activated(v1, 1), activated(v2, 2)])).toEqual([]);
    expect(dueOf([...here, image(2)], [activated(v1, 1), proven(v2, 2)])).toEqual(moves(2));
  });

  it('never is one that a release has, or that stickpin pulled; and any stays where the stream has no such setting', () => {
    const old = { ...image(3), repoTags: [versionTag(1)] };
    const restored = [versionTag(1, mirror), versionTag(1)].map((tag) => `${tag} ${referenceIn(1)}`);
    expect(dueOf([pulled, old], [stored(sonic(3), { retiredAt: NOON }), activated(v1, 1)])).toEqual(restored);
    expect(dueOf([pulled, local(versionTag(1))], [activated(v1, 1)], { policy: UNSERVED })).toEqual(restored);
  });
});

describe('streams.NAME.replace_stopped', () => {
  const [v1, v2] = [sonic(1), sonic(2)];
  const bundles = [proven(v1, 1), proven(v2, 2)];
  const ofOther = activated(
    { ...v1, bundleId: digestOf('other') as never, payload: { ...v1.payload, name: 'other' } },
    1,
  );
  const images = [image(1), image(2, LATEST)];
  const container = (over: Partial<RuntimeContainer> = {}): RuntimeContainer => ({ ...CONTAINER, ...over });
  const removed = (over: Partial<RuntimeContainer>, ...[shown, kept, given]: Partial<Parameters<typeof look>>) => {
    const { decision } = look(shown ?? images, kept ?? bundles, { ...given, containers: [container(over)] });
    return decision.effects.flatMap((effect) => (effect.kind === 'remove-images' ? (effect.stopped ?? []) : []));
  };

  it('removes a stopped container of that name that was made from an older release', () => {
    expect(removed({})).toEqual([{ containerId: 'c1', name: 'swss' }]);
  });

  it.each<[string, Parameters<typeof removed>]>([
    ['an image that the node came with', [{ imageNames: [digestOf('local')] }, [...images, local(versionTag(9))]]],
    ['an image that has lost its names', [{ imageNames: [digestOf('local')], podImage: LATEST }, [...images, local()]]],
    ['an image that is gone', [{ imageNames: [digestOf('gone')], podImage: LATEST }]],
    [
      'a release that was rolled back',
      [
        { imageNames: [digestOf(`id ${referenceIn(2)}`)] },
        [image(1, LATEST), image(2)],
        [proven(v1, 1), activated(v2, 2, { rolledBackAt: NOON + 3 * HOUR })],
      ],
    ],
  ])('removes one that was made from %s', (_what, args) => {
    expect(removed(...args)).toEqual([{ containerId: 'c1', name: 'swss' }]);
  });

  it.each<[string, Parameters<typeof removed>]>([
    ['one that runs', [{ state: 'running' }]],
    ['one that was made and not started, as a pin', [{ state: 'other' }]],
    ['one of another name', [{ key: 'bgp' }]],
    ['one of the proven release', [{ imageNames: [digestOf(`id ${referenceIn(2)}`)] }]],
    [
      'one of an image in another repository',
      [{ imageNames: [digestOf('local')], podImage: 'docker.io/library/other:latest' }, [...images, local()]],
    ],
    ["one of another stream's image in the same repository", [{}, images, [...bundles, ofOther]]],
    [
      'one of an image that is not listed, while one of a kept release is not',
      [
        { imageNames: [digestOf('unread')], podImage: LATEST },
        [image(2, LATEST)],
        [proven(v2, 2), activated(sonic(3), 3)],
      ],
    ],
    ['any before the tag has moved', [{}, [image(1, LATEST), image(2)]]],
    ['any before the proof', [{}, [image(1, LATEST), image(2)], [proven(v1, 1), activated(v2, 2)]]],
    [
      'one of a release that was activated since',
      [{}, [image(1), image(2, LATEST)], [activated(v1, 3), proven(v2, 2)]],
    ],
    [
      'any for a release whose trust was withdrawn',
      [{}, images, bundles, { revocations: { keyIds: v2.signerKeyIds ?? [], revocationsUnreadable: false } }],
    ],
    ['any without the setting', [{}, images, bundles, { policy: { ...POLICY, streams: {} } }]],
  ])('leaves %s', (_what, args) => {
    expect(removed(...args)).toEqual([]);
  });

  it('waits until the tags have moved in each repository of the image', () => {
    const other = 'acr.example.com/docker-swss';
    const both = sonic(2, {
      imageOver: { 'swss-2': { reference: referenceIn(2), tags: [versionTag(2), versionTag(2, other)] } },
    });
    const old = { ...image(1), repoTags: [versionTag(1), versionTag(1, other)] };
    const kept = [proven(v1, 1), proven(both, 2)];
    expect(removed({}, [old, image(2, LATEST, versionTag(2, other))], kept)).toEqual([]);
    expect(removed({}, [old, image(2, LATEST, versionTag(2, other), `${other}:latest`)], kept)).toHaveLength(1);
  });

  it('lists containers after the tag was given, and from time to time', () => {
    const now = NOON + 24 * HOUR;
    const needs = (sinceListMs: number, givenMsAgo: number | undefined, policy = POLICY) =>
      needsContainers(storedState([proven(v2, 2)]), reachable({ images: [image(2, LATEST)] }), policy, {
        isShort: false,
        sinceListMs,
        tagsGiven: givenMsAgo === undefined ? [] : [{ tag: LATEST, at: now - givenMsAgo }],
        observed: observation({ now }),
      });
    expect(needs(5_000, 1_000)).toBe(true);
    expect(needs(5_000, 6_000)).toBe(false);
    expect(needs(5_000, undefined)).toBe(false);
    expect(needs(10 * 60_000, undefined)).toBe(true);
    expect(needs(10 * 60_000, 1, { ...POLICY, streams: {} })).toBe(false);
  });
});

describe('streams.NAME.local_images', () => {
  const [v2, v3] = [sonic(2), sonic(3)];
  const retire = { ...POLICY, streams: { sonic: { ...streams.sonic, local_images: 'retire' as const } } };
  const own = (name: string, ...repoTags: readonly string[]): RuntimeImage => ({
    ...local(...repoTags),
    imageId: digestOf(name),
  });
  const old = own('old', versionTag(1));
  const imageUses = { uses: [], faults: [], isComplete: true };
  const usedBy = (name: string) => ({ imageUses: { ...imageUses, uses: [{ usedBy: 'Pod a', image: name }] } });
  const removed = (images: readonly RuntimeImage[], bundles: readonly StoredBundle[], given: Given = {}) =>
    look(images, bundles, { policy: retire, containers: [], imageUses, ...given }).decision.effects.flatMap((effect) =>
      effect.kind === 'remove-images' ? effect.images.map(({ imageId }) => imageId) : [],
    );
  const first = [proven(v2, 2)];
  const both = [proven(v2, 2), proven(v3, 3)];
  const after = [image(2), image(3, LATEST)];

  it('keeps all, if it is not set', () => {
    expect(removed([...after, old], both, { policy: POLICY })).toEqual([]);
  });

  it('keeps an older version as the fallback of the first release, and removes it after the second', () => {
    expect(removed([image(2, LATEST), old], first)).toEqual([]);
    expect(removed([...after, old], both)).toEqual([old.imageId]);
  });

  it('removes a newer version, and older ones but the newest of them, once the first release is proven', () => {
    const [newer, oldest] = [own('newer', versionTag(3)), own('oldest', versionTag(0))];
    expect(removed([image(2, LATEST), newer, old, oldest], first).sort()).toEqual(
      [newer.imageId, oldest.imageId].sort(),
    );
    expect(removed([image(2), newer, own('x', LATEST)], first)).toEqual([]);
    expect(removed([image(2, LATEST), newer], [activated(v2, 2)])).toEqual([]);
  });

  it('reads a version with a leading v as the same version', () => {
    const [newer, older] = [own('newer', `${SWSS}:v3.0.0`), own('older', `${SWSS}:v1.0.0`)];
    expect(removed([image(2, LATEST), newer, older], first)).toEqual([newer.imageId]);
  });

  it('removes one in spite of a container of another image, made by its id', () => {
    const other = { ...CONTAINER, imageNames: [digestOf(`id ${referenceIn(3)}`)], state: 'running' as const };
    expect(removed([...after, old], both, { containers: [other] })).toEqual([old.imageId]);
  });

  it.each<[string, RuntimeImage, Given?]>([
    ...['master.435-27c7', 'HEAD.0-dirty-2024', 'backup-2024', 'golden1', 'v'].map((tag): [string, RuntimeImage] => [
      `one under ${tag}, which is no version`,
      own('mine', `${SWSS}:${tag}`),
    ]),
    ['one that a static pod names', old, usedBy(versionTag(1))],
    ['one that a static pod names without a registry', old, usedBy('docker-swss:1.0.0')],
    [
      'one that a static pod names by digest',
      { ...old, repoDigests: [`${SWSS}@${digestOf('old')}`] },
      usedBy(`${SWSS}@${digestOf('old')}`),
    ],
    ['any while static pods can not be read', old, { imageUses: { ...imageUses, isComplete: false } }],
    ['any while static pods are not known', old, { imageUses: undefined }],
    ['any until pods have started after a boot', old, { boot: { bootId: 'b', uptimeMs: 60_000 } }],
    ['one of an init container that has ended', old, { containers: [{ ...CONTAINER, imageNames: [old.imageId] }] }],
    ['one whose tag a pod names', old, { containers: [{ ...CONTAINER, imageNames: [], podImage: versionTag(1) }] }],
    ['one that a container uses', old, { containers: [{ ...CONTAINER, imageNames: [old.imageId], state: 'running' }] }],
    ['one under a tag that is no version', own('mine', versionTag(1), `${SWSS}:mine`)],
    ['one with a name elsewhere', own('mine', versionTag(1), 'docker.io/library/mine:1.0.0')],
    ['one of another repository', own('mine', 'docker.io/library/mine:1.0.0')],
    ['one under a version of a kept release', own('mine', versionTag(2))],
    ['one that is pinned', { ...old, pinned: true }],
    ['one without a tag', own('mine')],
  ])('leaves %s', (_what, one, given) => {
    expect(removed([image(2), image(3, LATEST), one], both, given)).toEqual([]);
  });

  it('leaves all while the proven release is not whole', () => {
    expect(removed([image(2), { ...image(3, LATEST), pinned: false }, old], both)).toEqual([]);
  });
});

import { describe, expect, it } from 'vitest';
import { catalogOf } from '../../../../src/domain/decide/catalog.ts';
import type { VerifiedBundle } from '../../../../src/domain/model/bundle.ts';
import type { RuntimeImage } from '../../../../src/domain/model/image.ts';
import { tagOwners, tagsGivenLately } from '../../../../src/domain/release/tags.ts';
import { contestEvents, restoredMessage } from '../../../../src/domain/report/events/release-events.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import {
  allListed,
  digestOf,
  judge,
  listed,
  NOON,
  observation,
  pinsOf,
  reachable,
  referenceOf,
  type Scene,
  spoken,
  stored,
  UNSERVED,
  verified,
} from '../../../support/daemon/scenario.ts';
import { told } from '../../../support/daemon/told.ts';

const HOUR = 60 * 60_000;
const older = verified({ version: '4.13.6', sequence: 6 });
const newer = verified({ images: { etcd2: ['etcd2'], api2: ['api2'] } });
const tag = (name: string, version = '4.13.7') => `quay.example.com/ocp/${name}:${version}`;
/** Both releases name their etcd by the same floating tag too. */
const floating = 'quay.example.com/ocp/etcd:latest';
const sharing = (name: string, version: string) => ({
  imageOver: { [name]: { tags: [tag(name, version), floating] } },
});
const was = verified({ version: '4.13.6', sequence: 6, images: { etcd: ['etcd'] }, ...sharing('etcd', '4.13.6') });
const is = verified({ images: { etcd2: ['etcd2'] }, ...sharing('etcd2', '4.13.7') });
const active = (bundle: VerifiedBundle, at = NOON, over: Partial<StoredBundle> = {}) =>
  stored(bundle, { readyAt: 1, activatedAt: at, ...over });

const look = (images: readonly RuntimeImage[], bundles: readonly StoredBundle[], over: Partial<Scene> = {}) => {
  const observed = observation({
    runtime: reachable({ images }),
    pinsRequested: { references: pinsOf(...bundles), unpinned: '', attempts: 1, at: NOON },
    ...over,
  });
  return { observed, ...judge(observed, bundles, UNSERVED) };
};
/** What the tag names instead. */
const taken = (name: string) => listed('quay.example.com/other@sha256:1', false, [name]);
const dueOf = (...args: Parameters<typeof look>) => look(...args).assessment.tags.due.map((lost) => lost.tag);
/** All of `newer`, but etcd2 without its tag. */
const bare = [listed(referenceOf('etcd2')), ...allListed(newer).slice(1)];

describe('tags: which ones are restored', () => {
  it.each<
    [when: string, images: readonly RuntimeImage[], bundles: StoredBundle[], due: string[], over?: Partial<Scene>]
  >([
    ['all name their images', allListed(newer), [active(newer)], []],
    ['one is gone', bare, [active(newer)], [tag('etcd2')]],
    ['one names another image', [...bare, taken(tag('etcd2'))], [active(newer)], [tag('etcd2')]],
    ['its image is absent: that comes first', allListed(newer).slice(1), [active(newer)], []],
    ['it was never activated', bare, [stored(verified({ schedule: 'manual' }))], []],
    ['it is activated next', bare, [stored(newer, { readyAt: 1 })], []],
    ['it was rolled back', bare, [active(newer, NOON, { rolledBackAt: NOON + 1, rolledBackReason: 'no' })], []],
    [
      'it was rolled back and activated again',
      bare,
      [active(newer, NOON + 2, { rolledBackAt: NOON + 1, rolledBackReason: 'no' })],
      [tag('etcd2')],
    ],
    ['it is retired', bare, [active(newer, NOON, { retiredAt: NOON + 1 })], []],
    [
      "a newer one was activated after it: tags of the older one are nobody's",
      [...allListed(newer), listed(referenceOf('etcd')), listed(referenceOf('api'))],
      [active(older, NOON - 1), active(newer)],
      [],
    ],
    [
      'the newer one was rolled back: to give the older one its tags would be an activation',
      [...allListed(newer), listed(referenceOf('etcd')), listed(referenceOf('api'))],
      [active(older, NOON - 1), active(newer, NOON, { rolledBackAt: NOON + 1, rolledBackReason: 'no' })],
      [],
    ],
    [
      "both share a tag and it names the older one's image",
      [listed(referenceOf('etcd'), true, [floating]), listed(referenceOf('etcd2'), true, [tag('etcd2')])],
      [active(was, NOON - 1), active(is)],
      [floating],
    ],
    [
      'both share a tag and the older one is the activated one',
      [listed(referenceOf('etcd'), true, [tag('etcd', '4.13.6')]), listed(referenceOf('etcd2'), true, [floating])],
      [active(was), active(is, NOON - 1)],
      [floating],
    ],
    [
      'an activation of the stream is to come',
      [...bare, ...allListed(older)],
      [
        stored(older, { readyAt: 1, activationRequestedAt: NOON + 1, activationOverrides: ['rule/downgrade'] }),
        active(newer),
      ],
      [],
    ],
    [
      'an activation of the stream waits for images',
      bare,
      [stored(older, { readyAt: 1, activationRequestedAt: NOON + 1 }), active(newer)],
      [tag('etcd2')],
    ],
    [
      'an activation runs: what was observed may be old',
      bare,
      [active(newer)],
      [],
      { running: [{ kind: 'activate', bundleId: newer.bundleId }] },
    ],
    ['the runtime does not answer', bare, [active(newer)], [], { runtime: { kind: 'unreachable', reason: 'away' } }],
    [
      'its key was revoked',
      bare,
      [active(newer)],
      [],
      { revocations: { keyIds: newer.signerKeyIds ?? [], revocationsUnreadable: false } },
    ],
    [
      'the last try failed and must not be made again yet',
      bare,
      [active(newer)],
      [],
      {
        failures: [
          {
            task: { kind: 'restore-tags', bundleId: newer.bundleId, tags: [tag('etcd2')] },
            attempts: 1,
            reason: { code: 'runtime/pull-failed', message: 'no' },
            retryAt: NOON + 1,
          },
        ],
      },
    ],
  ])('%s', (_when, images, bundles, due, over) => {
    expect(dueOf(images, bundles, over)).toEqual(due);
  });

  it('restores the tags of one release at a time', () => {
    const tools = verified({ name: 'tools', images: { shell: ['shell'] } });
    const images = [...bare, listed(referenceOf('shell'))];
    expect(dueOf(images, [active(newer), active(tools)])).toEqual([tag('etcd2')]);
  });

  it('leaves lost tags of an older release alone, since a pull of them is answered, and still says that one is contested', () => {
    const lostTag = tag('etcd', '4.13.6');
    const images = [...allListed(newer), listed(referenceOf('etcd')), listed(referenceOf('api')), taken(lostTag)];
    const tagsGiven = [1, 2, 3].map((at) => ({ tag: lostTag, at: NOON + at - 10 }));
    const { assessment } = look(images, [active(older, NOON - 1), active(newer)], { tagsGiven });
    expect(assessment.tags).toMatchObject({ stray: [], due: [], settled: [], troubles: new Map() });
    expect(assessment.tags.contested.map((lost) => lost.tag)).toEqual([lostTag]);
    expect(contestEvents(assessment, new Set())).toEqual([]);
  });

  it('leaves a tag of two streams to the one that was activated first', () => {
    const tools = verified({ name: 'tools', images: { etcd: ['etcd'] }, ...sharing('etcd', '1.0.0') });
    for (const [first, second] of [
      [is, tools],
      [tools, is],
    ] as const) {
      expect(tagOwners([active(second, NOON), active(first, NOON - 1)]).get(floating)?.bundleId).toBe(first.bundleId);
    }
  });

  it('does not move a tag that another stream has', () => {
    const tools = verified({ name: 'tools', images: { etcd: ['etcd'] }, ...sharing('etcd', '1.0.0') });
    const images = [listed(referenceOf('etcd'), true, [tag('etcd', '1.0.0')]), ...allListed(is)];
    expect(dueOf(images, [active(tools, NOON + 1), active(is)])).toEqual([]);
    expect(dueOf(images, [active(tools, NOON - 1), active(is)])).toEqual([floating]);
  });
});

describe('tags: which pulls are answered', () => {
  const serve = { serve: { activated: 'digests-and-tags', except: [] } } as const;
  /** The release of each tag that is answered. */
  const answered = (bundles: readonly StoredBundle[], over: Partial<Scene> = {}) => {
    const { observed, assessment } = look(
      bundles.flatMap((bundle) => allListed(bundle)),
      bundles,
      over,
    );
    const versions = new Map(
      bundles.flatMap(({ payload, contents }) => contents.images.map(({ digest }) => [digest, payload.version])),
    );
    return Object.fromEntries(
      [...catalogOf(observed, assessment, { ...UNSERVED, ...serve })].flatMap(([name, { tags }]) =>
        [...tags].map(([one, digest]) => [`${name}:${one}`, versions.get(digest)] as const),
      ),
    );
  };
  const back = { rolledBackAt: NOON + 1, rolledBackReason: 'no' };
  const [own, next] = [{ [tag('etcd', '4.13.6')]: '4.13.6' }, { [tag('etcd2')]: '4.13.7' }];

  it.each<[when: string, bundles: StoredBundle[], expected: Record<string, string>, over?: Partial<Scene>]>([
    [
      'it was superseded: a tag that only it names; the newer one has the others',
      [active(was, NOON - 1, { provenAt: NOON - 1 }), active(is)],
      { ...own, ...next, [floating]: '4.13.7' },
    ],
    [
      'it went back, or the one before it: a tag that both name does not move back by itself',
      [active(was, NOON - 1, { provenAt: NOON - 1 }), active(is, NOON, back)],
      { ...own, ...next },
    ],
    [
      'the older one is activated again',
      [active(was, NOON + 2), active(is, NOON, back)],
      { ...own, ...next, [floating]: '4.13.6' },
    ],
    [
      'the newer one is retired: what it took stays with nobody',
      [active(was, NOON - 1), active(is, NOON, { retiredAt: NOON + 1 })],
      own,
    ],
    [
      'the older one is retired',
      [active(was, NOON - 1, { retiredAt: NOON + 1 }), active(is)],
      { ...next, [floating]: '4.13.7' },
    ],
    [
      'the newer one was never activated',
      [active(was, NOON - 1), stored({ ...is, payload: { ...is.payload, schedule: 'manual' } }, { readyAt: 1 })],
      { ...own, [floating]: '4.13.6' },
    ],
    [
      'the tag is contested',
      [active(was, NOON - 1), active(is)],
      { ...next, [floating]: '4.13.7' },
      {
        runtime: reachable({
          images: [listed(referenceOf('etcd')), taken(tag('etcd', '4.13.6')), ...allListed(is)],
        }),
        tagsGiven: [1, 2, 3].map((at) => ({ tag: tag('etcd', '4.13.6'), at: NOON + at - 10 })),
      },
    ],
  ])('%s', (_when, bundles, expected, over) => {
    expect(answered(bundles, over)).toEqual(expected);
  });

  it('answers a tag that all kept releases give to one image, whatever becomes of the newer one', () => {
    const same = verified({ images: { etcd: ['etcd'] }, ...sharing('etcd', '4.13.7') });
    for (const over of [back, { retiredAt: NOON + 1 }]) {
      const bundles = [active(was, NOON - 1), active(same, NOON, over)];
      expect(Object.keys(answered(bundles))).toContain(floating);
    }
    expect(tagOwners([active(was, NOON - 1), active(same)]).get(floating)?.payload.version).toBe('4.13.7');
    const [older6, newer7] = [active(was, NOON - 1), active(same)];
    expect(tagOwners([older6, newer7], new Set([newer7])).get(floating)).toBe(older6);
    expect(tagOwners([older6, active(is)], new Set()).get(floating)?.payload.version).toBe('4.13.7');
  });

  it('answers no tag of a release whose trust was withdrawn, and none that it took from another one', () => {
    const [older6, newer7] = [active(was, NOON - 1), active(is)];
    expect([...tagOwners([older6, newer7], new Set([newer7])).keys()]).toEqual([tag('etcd', '4.13.6')]);
    expect([...tagOwners([older6, newer7], new Set([older6])).keys()].sort()).toEqual([tag('etcd2'), floating].sort());
  });
});

describe('tags: how they are restored', () => {
  it('writes mirrors of their repositories, then pulls them, and offers no other tag', () => {
    const first = look(bare, [active(newer)]);
    expect(spoken(first.decision.effects)).toEqual(['apply-mirrors etcd2']);
    const mirrored = { runtime: reachable({ images: bare, renderedMirrors: ['quay.example.com/ocp/etcd2'] }) };
    const second = look(bare, [active(newer)], mirrored);
    expect(spoken(second.decision.effects)).toEqual(['restore-tags etcd2:4.13.7']);
    const running = [{ kind: 'restore-tags', bundleId: newer.bundleId, tags: [tag('etcd2')] } as const];
    for (const over of [mirrored, { ...mirrored, running }]) {
      const { observed, assessment, decision } = look(bare, [active(newer)], over);
      const catalog = catalogOf(observed, assessment, UNSERVED);
      const offered = [...catalog].flatMap(([name, { tags }]) => [...tags.keys()].map((one) => `${name}:${one}`));
      expect(offered).toEqual([tag('etcd2')]);
      expect(spoken(decision.effects)).toEqual(over === mirrored ? ['restore-tags etcd2:4.13.7'] : []);
    }
    const done = look(allListed(newer), [active(newer)], {
      runtime: { ...mirrored.runtime, images: allListed(newer) },
    });
    expect(spoken(done.decision.effects)).toEqual(['apply-mirrors']);
  });

  it.each([
    { given: [], due: true },
    { given: [-4_999], due: false, wakeAt: NOON + 1 },
    { given: [-5_000], due: true },
    { given: [-60_000, -19_999], due: false, wakeAt: NOON + 1 },
    { given: [-60_000, -20_000], due: true },
    { given: [-HOUR + 1, -60_000, -20_000], due: false, isContested: true },
    { given: [-HOUR - 80_001, -100_000, -80_000], due: true },
    { given: [-9 * HOUR, -9 * HOUR, -9 * HOUR], due: false, isContested: true },
    { given: [60_000], due: true },
  ])(
    'takes a tag back that was already taken back $given ms from now: $due',
    ({ given, due, wakeAt, isContested = false }) => {
      const tagsGiven = given.map((ms) => ({ tag: tag('etcd2'), at: NOON + ms }));
      const { assessment, first } = look([...bare, taken(tag('etcd2'))], [active(newer)], { tagsGiven });
      expect(assessment.tags.due).toHaveLength(due ? 1 : 0);
      expect(assessment.tags.contested).toHaveLength(isContested ? 1 : 0);
      expect(assessment.tags.wakeAt).toBe(wakeAt);
      expect(first?.degraded?.code).toBe(isContested ? 'engine/tag-contested' : undefined);
    },
  );

  it.each([
    { times: 1, dueAfterMs: 5_000 },
    { times: 2, dueAfterMs: 20_000 },
    { times: 3, dueAfterMs: 80_000 },
    { times: 40, dueAfterMs: 80_000 },
  ])('restores a tag that is gone after $times times within an hour, $dueAfterMs ms after the last', (row) => {
    const { times, dueAfterMs } = row;
    const all = Array.from({ length: times }, (_, at) => ({ tag: tag('etcd2'), at: at + 1, wasGone: true as const }));
    const tagsGiven = tagsGivenLately(all, [], times);
    expect(tagsGiven).toEqual(all.slice(-3));
    const at = (now: number) => look(bare, [active(newer)], { tagsGiven, now }).assessment.tags;
    expect(at(times + dueAfterMs - 1)).toMatchObject({ due: [], contested: [], wakeAt: times + dueAfterMs });
    expect(at(times + dueAfterMs)).toMatchObject({ due: [{ tag: tag('etcd2') }], contested: [], troubles: new Map() });
  });

  it('restores a contested tag once it is gone', () => {
    const tagsGiven = [1, 2, 3].map((at) => ({ tag: tag('etcd2'), at: NOON + at - 90_000 }));
    expect(look(bare, [active(newer)], { tagsGiven }).assessment.tags).toMatchObject({ due: [{}], contested: [] });
  });

  it('names a tag that is not restored any more, its present image, and how to restore it', () => {
    const tagsGiven = [1, 2, 3].map((at) => ({ tag: tag('etcd2'), at: NOON + at - 10 }));
    expect(told(look([...bare, taken(tag('etcd2'))], [active(newer)], { tagsGiven }).first)).toMatchObject({
      phase: 'activated',
      degraded: {
        message: `A tag of ocp 4.13.7 was taken away again 3 times within an hour, so it is left alone. It is ${tag('etcd2')}: it names quay.example.com/other@sha256:1 now and should name ${referenceOf('etcd2')}. Find out what moves it. 'stickpin activate ocp@4.13.7' restores it`,
      },
    });
  });

  it('keeps the mirror while it waits after a failure, since the runtime takes it up only a little later (docs/runtime-facts.md, fact 5)', () => {
    const task = { kind: 'restore-tags', bundleId: newer.bundleId, tags: [tag('etcd2')] } as const;
    const failures = [{ task, attempts: 1, reason: { code: 'engine/tags', message: 'no' }, retryAt: NOON + 1 }];
    const runtime = reachable({ images: bare, renderedMirrors: ['quay.example.com/ocp/etcd2'] });
    expect(look(bare, [active(newer)], { failures, runtime }).decision.effects).toEqual([]);
    expect(spoken(look(bare, [active(newer)], { failures, runtime, now: NOON + 1 }).decision.effects)).toEqual([
      'restore-tags etcd2:4.13.7',
    ]);
  });

  it('restores the other tags while one is not restored any more', () => {
    const tagsGiven = [1, 2, 3].map((at) => ({ tag: tag('etcd2'), at: NOON + at - 10 }));
    const images = newer.contents.images.map(({ reference }) => listed(reference));
    expect(dueOf([...images, taken(tag('etcd2'))], [active(newer)], { tagsGiven })).toEqual([tag('api2')]);
  });

  it('forgets a stable tag after an hour, and never one that is still lost', () => {
    const given = [
      { tag: 'a', at: NOON - HOUR - 1 },
      { tag: 'a', at: NOON - HOUR },
      { tag: 'b', at: NOON - 9 * HOUR },
    ];
    expect(tagsGivenLately(given, ['a'], NOON)).toEqual(given.slice(1));
    const held = look(allListed(newer), [active(newer)], { tagsGiven: [{ tag: tag('api2'), at: 1 }] });
    expect(held.assessment.tags.settled).toEqual([tag('api2')]);
    const retired = [active(newer, NOON, { retiredAt: NOON + 1 })];
    const gone = look(bare, retired, { tagsGiven: [{ tag: tag('etcd2'), at: 1 }] });
    expect(gone.assessment.tags.settled).toEqual([tag('etcd2')]);
    const away = {
      runtime: { kind: 'unreachable', reason: 'away' } as const,
      tagsGiven: [{ tag: tag('api2'), at: 1 }],
    };
    expect(look([], [active(newer)], away).assessment.tags.settled).toEqual([]);
  });

  it('lists the restored tags in one line', () => {
    const lost = {
      bundleId: newer.bundleId,
      tag: tag('etcd2'),
      reference: referenceOf('etcd2'),
      digest: digestOf('image etcd2'),
      names: undefined,
    };
    expect(restoredMessage([lost], stored(newer))).toBe(
      `1 tag of ocp 4.13.7 names its image again, first ${tag('etcd2')}, which was gone and names ${referenceOf('etcd2')} now`,
    );
    expect(restoredMessage([lost], stored(newer), true)).toMatch(
      /which was gone and names \S+ now\. This was the third time within an hour: find out what removes it\. It is restored each time, and no longer reported$/,
    );
    const moved = { ...lost, names: `quay.example.com/other@${digestOf('other')}` };
    expect(restoredMessage([moved, lost], stored(newer))).toBe(
      `2 tags of ocp 4.13.7 name their images again, first ${tag('etcd2')}, which named ${moved.names} and names ${referenceOf('etcd2')} now`,
    );
  });
});

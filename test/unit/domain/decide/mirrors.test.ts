import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { catalogOf, heldTags } from '../../../../src/domain/decide/catalog.ts';
import { mirrorsWanted } from '../../../../src/domain/decide/wanted-files.ts';
import type { Policy } from '../../../../src/domain/settings/settings.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import {
  allListed,
  FACTS,
  found,
  judge,
  keyIdOf,
  listed,
  medium,
  NOON,
  observation,
  POLICY,
  pinsOf,
  reachable,
  type Scene,
  spoken,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';

const older = verified({
  version: '4.13.6',
  sequence: 6,
  images: { old: ['old'], etcd: ['etcd'] },
  imageOver: { old: { tags: ['mirror.example.com/old:v6', 'quay.example.com/ocp/floating:latest'] } },
});
const newer = verified({
  images: { etcd: ['etcd'], api: ['api'] },
  imageOver: { api: { tags: ['quay.example.com/ocp/floating:latest'] } },
});
const proven = (at: number) => ({ readyAt: at, activatedAt: at, activeAt: at, provenAt: at });
const fallback = stored(older, proven(NOON - 20));
const current = stored(newer, proven(NOON - 10));

/** The floating tag names the image of the newer one. */
const oldListed = allListed(older).map((image) => ({ ...image, repoTags: image.repoTags.slice(0, 1) }));
const serving = (over: Partial<Policy['serve']>): Policy => ({ ...POLICY, serve: { ...POLICY.serve, ...over } });
const at = (bundles: readonly StoredBundle[], policy = POLICY, over: Partial<Scene> = {}) => {
  const observed = observation({
    runtime: reachable({ images: bundles.includes(fallback) ? [...allListed(newer), ...oldListed] : allListed(newer) }),
    pinsRequested: { references: pinsOf(...bundles), unpinned: '', attempts: 1, at: NOON },
    ...over,
  });
  const { assessment, decision } = judge(observed, bundles, policy);
  const names = (all: readonly string[]) => all.map((name) => name.split('/').slice(1).join('/'));
  return {
    mirrors: names(mirrorsWanted([], observed, assessment, policy)),
    tags: heldTags(assessment, policy).map(({ tag }) => tag),
    catalog: catalogOf(observed, assessment, policy),
    effects: spoken(decision.effects),
  };
};

describe('mirrors of a preload', () => {
  const rendered = ['quay.example.com/ocp/api', 'quay.example.com/ocp/gone', 'stale quay.example.com/ocp/etcd'];
  const kept = (areMediaUnread: boolean, over: Partial<StoredBundle> = {}, scene: Partial<Scene> = {}) => {
    const observed = observation({ runtime: reachable({}), areMediaUnread, ...scene });
    const { assessment } = judge(observed, [{ ...stored(newer), ...over }]);
    return mirrorsWanted(rendered, observed, assessment, POLICY);
  };

  it('stay after a start while media are read, those of nothing else and stale ones do not', () => {
    expect(kept(true)).toEqual(['quay.example.com/ocp/api']);
  });

  it('go when all media were read and none has the release', () => {
    expect(kept(false)).toEqual([]);
  });

  it.each([
    ['was cancelled', { cancelled: { at: NOON, media: [] } }],
    ['was retired', { retiredAt: NOON }],
  ])('go after a start when the release %s', (_what, over) => {
    expect(kept(true, over)).toEqual([]);
  });

  it('go after a start when the key of the release was revoked', () => {
    const revocations = { keyIds: [keyIdOf('factory-2026')], revocationsUnreadable: false };
    expect(kept(true, {}, { revocations })).toEqual([]);
  });
});

describe('mirrors while the settings are wrong', () => {
  const asked = (renderedMirrors: readonly string[], bundles: readonly StoredBundle[] = []) => {
    const facts = { ...FACTS, keepsOnly: true } as const;
    const { decision } = judge(observation({ facts, runtime: reachable({ renderedMirrors }) }), bundles);
    return decision.effects.flatMap((one) => (one.kind === 'apply-mirrors' ? [one.repositories] : []));
  };

  it('stay without a record of their release, also those with another address', () => {
    const current = 'quay.example.com/ocp/api';
    expect(asked([current, 'stale quay.example.com/ocp/etcd'])).toEqual([[current, 'quay.example.com/ocp/etcd']]);
    expect(asked([current])).toEqual([]);
    expect(asked(['unreadable /etc/a.conf'])).toEqual([]);
  });
});

describe('mirrors of activated releases', () => {
  it('stay for the present release and its fallback, with the repositories of their tags', () => {
    expect(at([fallback, current]).mirrors).toEqual(['old', 'ocp/api', 'ocp/etcd', 'ocp/floating', 'ocp/old']);
    expect(at([current]).mirrors).toEqual(['ocp/api', 'ocp/etcd', 'ocp/floating']);
  });

  it('are written again when they are lost, and go when the release is retired', () => {
    expect(at([current]).effects).toEqual(['apply-mirrors api etcd floating']);
    const retired = { ...current, retiredAt: NOON - 1, removeImages: false };
    expect(at([retired]).mirrors).toEqual([]);
  });

  it('stay for a release that waits for its activation, also when an image of it is lost meanwhile', () => {
    const waiting = stored(verified({ schedule: 'manual' }), { readyAt: NOON });
    expect(at([waiting]).mirrors).toEqual(['ocp/api', 'ocp/etcd']);
    expect(at([waiting], POLICY, { runtime: reachable({}) }).mirrors).toEqual(['ocp/api', 'ocp/etcd']);
    expect(at([waiting], serving({ activated: 'off' })).mirrors).toEqual([]);
    expect(at([{ ...waiting, retiredAt: NOON + 1, removeImages: false }]).mirrors).toEqual([]);
  });

  it('are none for a release whose key was revoked', () => {
    const revocations = { keyIds: [keyIdOf('factory-2026')], revocationsUnreadable: false };
    const { mirrors, tags, catalog } = at([current], POLICY, { revocations });
    expect([mirrors, tags, [...catalog.keys()]]).toEqual([[], [], []]);
  });

  it('are the same from the first pull until the release is retired, so that CRI-O reads them once', () => {
    const images = allListed(newer);
    const stick = [medium('sdb1', [found(newer)])];
    const empty = reachable({});
    const all = reachable({ images });
    const ready = stored(newer, { readyAt: NOON });
    const unpinned = reachable({ images: images.map((image) => ({ ...image, pinned: false })) });
    const wanted = ['ocp/api', 'ocp/etcd', 'ocp/floating'];
    expect(at([stored(newer)], POLICY, { media: stick, runtime: empty }).mirrors).toEqual(wanted);
    expect(at([stored(newer)], POLICY, { media: stick, runtime: unpinned }).mirrors).toEqual(wanted);
    expect(at([ready], POLICY, { runtime: all }).mirrors).toEqual(wanted);
    const running = [{ kind: 'activate', bundleId: newer.bundleId } as const];
    expect(at([ready], POLICY, { runtime: all, running }).mirrors).toEqual(wanted);
    expect(at([current], POLICY, { runtime: all }).mirrors).toEqual(wanted);
  });

  it('follow serve.activated and serve.except', () => {
    expect(at([current], serving({ activated: 'off' })).mirrors).toEqual([]);
    expect(at([current], serving({ except: ['quay.example.com/ocp/etcd'] })).mirrors).toEqual([
      'ocp/api',
      'ocp/floating',
    ]);
  });

  it('do not depend on earlier mirrors while nothing runs', () => {
    const names = fc.array(fc.constantFrom('quay.example.com/ocp/etcd', 'quay.example.com/left', 'stale x'));
    const observed = observation({ runtime: reachable({ images: allListed(newer) }) });
    const { assessment } = judge(observed, [current]);
    fc.assert(
      fc.property(names, (rendered) => {
        expect(mirrorsWanted(rendered, observed, assessment, POLICY)).toEqual(
          mirrorsWanted([], observed, assessment, POLICY),
        );
      }),
    );
  });
});

describe('what the registry offers of activated releases', () => {
  it('offers the tags that each release holds: a shared one names the image of the newer release', () => {
    const { catalog } = at([fallback, current]);
    const floating = catalog.get('quay.example.com/ocp/floating');
    const api = newer.contents.images.find(({ reference }) => reference.includes('/api@'));
    expect(floating?.tags.get('latest')).toBe(api?.digest);
    expect(floating?.images.get(api?.digest ?? older.bundleId)).toBe(api?.reference);
  });

  it('offers no tags with serve.activated = "digests", and the images all the same', () => {
    const { tags, catalog } = at([current], serving({ activated: 'digests' }));
    expect(tags).toEqual([]);
    expect([...catalog.keys()]).toEqual(['quay.example.com/ocp/etcd', 'quay.example.com/ocp/api']);
  });

  it('offers no tag that is no longer taken back after three times, also while other tags move', () => {
    const lost = 'quay.example.com/ocp/floating:latest';
    const images = allListed(newer).map((image) => ({
      ...image,
      repoTags: image.repoTags.filter((tag) => tag !== lost),
    }));
    const tagsGiven = [3, 2, 1].map((ago) => ({ tag: lost, at: NOON - ago * 60_000 }));
    const other = listed('quay.example.com/other@sha256:1', false, [lost]);
    const over = { runtime: reachable({ images: [...images, other] }), tagsGiven };
    expect(at([current], POLICY, over).tags).not.toContain(lost);
    const tools = verified({ name: 'tools', version: '1.0.0', images: { shell: [] } });
    const running = [{ kind: 'activate', bundleId: tools.bundleId } as const];
    expect(at([current, stored(tools)], POLICY, { ...over, running }).tags).not.toContain(lost);
    expect(at([current], POLICY, { ...over, tagsGiven: tagsGiven.slice(1) }).tags).toContain(lost);
  });

  it('offers nothing of an excluded repository, except while its images are loaded', () => {
    const policy = serving({ except: ['quay.example.com/ocp/etcd'] });
    expect([...at([current], policy).catalog.keys()]).toEqual([
      'quay.example.com/ocp/api',
      'quay.example.com/ocp/floating',
    ]);
    const running = [{ kind: 'activate', bundleId: newer.bundleId } as const];
    expect(at([current], policy, { running }).catalog.has('quay.example.com/ocp/etcd')).toBe(true);
  });
});

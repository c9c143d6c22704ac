import { describe, expect, it } from 'vitest';
import { NO_FLOORS } from '../../../../../src/domain/adoption/floors.ts';
import { planRebuild, type RebuildContext } from '../../../../../src/domain/release/rebuild.ts';
import {
  digestOf,
  found,
  listed,
  NOON,
  observation,
  POLICY,
  reachable,
  refused,
  stored,
  storedState,
  verified,
} from '../../../../support/daemon/scenario.ts';

const bundle = verified();
const { bundleId } = bundle;
const pins = bundle.contents.images.filter((image) => image.pin).map(({ reference }) => reference);

const plan = (over: Partial<RebuildContext> = {}) =>
  planRebuild({
    judged: [{ bundleId, found: found(bundle) }],
    observed: observation({ runtime: reachable({ renderedPins: pins, foundPins: pins }) }),
    stored: storedState([]),
    floors: NO_FLOORS,
    unclaimed: new Set(pins),
    isStateLost: false,
    policy: POLICY,
    place: 'here',
    ...over,
  });
/** Its images with all its tags, as after its activation. */
const tagged = reachable({
  renderedPins: pins,
  images: bundle.contents.images.map(({ reference, tags }) => listed(reference, true, tags)),
});

describe('planRebuild', () => {
  it('invents no times: with pins alone a release counts as neither activated nor proven', () => {
    const [one] = plan().rebuilt;
    expect(one?.evidence).toBe('pins');
    expect(one?.bundle).not.toHaveProperty('activatedAt');
    expect(one?.bundle).not.toHaveProperty('provenAt');
  });

  it('counts tags that all name their images as an activation after all known times, but not as a proof', () => {
    const other = stored(verified({ name: 'tools', version: '1.0.0' }), { activatedAt: NOON + 99 });
    const [one] = plan({ observed: observation({ runtime: tagged }), stored: storedState([other]) }).rebuilt;
    expect(one?.evidence).toBe('tags');
    expect(one?.bundle.activatedAt).toBe(NOON + 100);
    expect(one?.bundle).not.toHaveProperty('provenAt');
  });

  it('takes a release without tags for one that was not activated, since nothing shows that it was', () => {
    const untagged = verified({ images: { etcd: ['base'] }, imageOver: { etcd: { tags: [] } } });
    const references = untagged.contents.images.map(({ reference }) => reference);
    const runtime = reachable({
      renderedPins: references,
      foundPins: references,
      images: references.map((reference) => listed(reference, true)),
    });
    const [one] = plan({
      judged: [{ bundleId: untagged.bundleId, found: found(untagged) }],
      observed: observation({ runtime }),
      unclaimed: new Set(references),
    }).rebuilt;
    expect(one?.evidence).toBe('pins');
    expect(one?.bundle).not.toHaveProperty('activatedAt');
  });

  it('takes a release of which one tag names another image for one that was not activated', () => {
    const [first, ...others] = bundle.contents.images;
    const images = [
      listed(first?.reference ?? '', true),
      listed('quay.example.com/ocp/other@sha256:00', false, first?.tags ?? []),
      ...others.map(({ reference, tags }) => listed(reference, true, tags)),
    ];
    const runtime = reachable({ renderedPins: pins, foundPins: pins, images });
    expect(plan({ observed: observation({ runtime }) }).rebuilt[0]?.evidence).toBe('pins');
  });

  it('ignores documents without pins and records', () => {
    expect(plan({ unclaimed: new Set(), observed: observation({ runtime: reachable() }) }).rebuilt).toEqual([]);
  });

  it('ignores documents of which one pin is neither in force nor recorded', () => {
    const [first = '', ...others] = pins;
    expect(others.length).toBeGreaterThan(0);
    const runtime = (foundPins: readonly string[]) => reachable({ renderedPins: [first], foundPins });
    const rebuiltWith = (foundPins: readonly string[]) =>
      plan({ unclaimed: new Set([first]), observed: observation({ runtime: runtime(foundPins) }) }).rebuilt;
    expect(rebuiltWith([first])).toEqual([]);
    expect(rebuiltWith(pins)).toHaveLength(1);
  });

  it('counts the documents themselves as a record when the database was lost', () => {
    const { rebuilt } = plan({
      unclaimed: new Set(),
      observed: observation({ runtime: reachable() }),
      isStateLost: true,
    });
    expect(rebuilt.map(({ evidence }) => evidence)).toEqual(['pins']);
  });

  it('refuses a release that is not trusted now, and names the reason', () => {
    const { rebuilt, refused: refusals } = plan({ judged: [{ bundleId, found: refused('signed by a revoked key') }] });
    expect(rebuilt).toEqual([]);
    expect(refusals).toEqual([{ bundleId, reason: expect.objectContaining({ message: 'signed by a revoked key' }) }]);
  });

  it('refuses a release that a person rejected', () => {
    const verdicts = [{ bundleId, verdict: 'rejected', at: 1 }] as const;
    const { rebuilt, refused: refusals } = plan({ stored: storedState([], { verdicts }) });
    expect(rebuilt).toEqual([]);
    expect(refusals[0]?.reason.code).toBe('trust/rejected');
  });

  it('refuses a release whose name a person rejected', () => {
    const rejectedNames = [{ name: 'ocp', version: '4.13.7', at: 1 }];
    const { rebuilt, refused: refusals } = plan({ stored: storedState([], { rejectedNames }) });
    expect(rebuilt).toEqual([]);
    expect(refusals[0]?.reason.code).toBe('trust/rejected');
  });

  it('refuses a release whose approval was lost', () => {
    const policy = { ...POLICY, trust: { ...POLICY.trust, require: 'both' as const } };
    const { rebuilt, refused: refusals } = plan({ policy });
    expect(rebuilt).toEqual([]);
    expect(refusals[0]?.reason.code).toBe('trust/approval');
  });

  it('refuses the second of two bundles with one sequence', () => {
    const twin = verified({ annotations: { twin: 'yes' } });
    const { rebuilt, refused: refusals } = plan({
      judged: [bundle, twin].map((one) => ({ bundleId: one.bundleId, found: found(one) })),
      isStateLost: true,
    });
    expect(rebuilt.map((one) => one.bundle.bundleId)).toEqual([bundleId]);
    expect(refusals.map(({ reason }) => reason.code)).toEqual(['bundle/sequence']);
  });

  it('refuses a folder that holds the documents of another bundle', () => {
    const judged = [{ bundleId: digestOf('other'), found: found(bundle) }];
    expect(plan({ judged, isStateLost: true })).toEqual({ rebuilt: [], refused: [] });
  });

  it('rebuilds a release that shares a pinned image with one that is known', () => {
    const [shared, ...others] = pins;
    expect(shared).toBeDefined();
    expect(plan({ unclaimed: new Set(others) }).rebuilt).toHaveLength(1);
  });
});

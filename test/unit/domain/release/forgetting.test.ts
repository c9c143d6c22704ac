import { describe, expect, it } from 'vitest';
import { assess } from '../../../../src/domain/assess/assess.ts';
import { KEPT_RETIRED } from '../../../../src/domain/release/forgetting.ts';
import { type PastSpeaker, withSpeaker } from '../../../../src/domain/state/past.ts';
import type { Stored, StoredBundle } from '../../../../src/domain/state/state.ts';
import {
  keyIdOf,
  NOON,
  observation,
  POLICY,
  reachable,
  referenceOf,
  stored,
  storedState,
  verified,
} from '../../../support/daemon/scenario.ts';

const HOUR_MS = 3_600_000;

function release(sequence: number, marks: Partial<StoredBundle> = {}): StoredBundle {
  const at = NOON - HOUR_MS * (100 - sequence);
  const done = { adoptedAt: at, readyAt: at, activatedAt: at, activeAt: at, provenAt: at };
  return stored(
    verified({ sequence, version: `4.13.${sequence}`, images: { [`etcd-${sequence}`]: [`l-${sequence}`] } }),
    {
      ...done,
      ...marks,
    },
  );
}
const retired = (sequence: number, marks: Partial<StoredBundle> = {}) =>
  release(sequence, { retiredAt: NOON - HOUR_MS * (50 - sequence), removeImages: true, ...marks });
const OVER = KEPT_RETIRED + 2;
const history = Array.from({ length: OVER }, (_, at) => retired(at + 1));
const current = release(OVER + 1);
const [oldest] = history;
const own = referenceOf(`etcd-1`);
/** The present release is whole. */
const whole = {
  imageId: 'sha256:current',
  repoTags: [],
  repoDigests: [referenceOf(`etcd-${OVER + 1}`)],
  pinned: true,
};

type Scenery = Parameters<typeof observation>[0];
function forgotten(
  bundles: readonly StoredBundle[],
  scenery: Scenery = {},
  pulledByUs = new Set<string>(),
  over: Partial<Stored> = {},
) {
  const scene = observation({
    pinLedger: { releases: [], unclaimed: [], givenUp: [] },
    runtime: reachable({ images: [whole] }),
    ...scenery,
  });
  const { life } = assess(scene, scene, storedState(bundles, { pulledByUs, ...over }), POLICY);
  return life.findings.flatMap((one) => (one.kind === 'over' ? [one.bundleId] : []));
}

describe('a retired release of which nothing is left', () => {
  it('becomes one line, the oldest one first, and the last ones stay in the list', () => {
    expect(forgotten([...history, current])).toEqual([oldest?.bundleId]);
    expect(forgotten([...history.slice(0, KEPT_RETIRED), current])).toEqual([]);
  });

  const image = { imageId: 'sha256:1', repoTags: [] as string[], repoDigests: [own], pinned: false };
  it.each<[string, Scenery, Set<string>]>([
    ['its image is there', { runtime: reachable({ images: [whole, image] }) }, new Set([own])],
    ['its pin is there', { runtime: reachable({ images: [whole], foundPins: [own] }) }, new Set()],
    ['it is not known which pins are there', { pinLedger: undefined }, new Set()],
    [
      'the records may be older ones',
      { pinLedger: { releases: [], unclaimed: [], givenUp: [], isDoubted: true } },
      new Set(),
    ],
    ['revocations can not be read', { revocations: { keyIds: [], revocationsUnreadable: true } }, new Set()],
    ['an unclaimed pin has its name', { pinLedger: { releases: [], unclaimed: [own], givenUp: [] } }, new Set()],
    ['the runtime does not answer', { runtime: { kind: 'unreachable', reason: 'x' } as never }, new Set()],
  ])('stays while %s', (_why, scenery, pulledByUs) => {
    expect(forgotten([...history, current], scenery, pulledByUs)).not.toContain(oldest?.bundleId);
  });

  it('goes although an image of it is there that another release names too, or somebody else pulled', () => {
    const foreign = { runtime: reachable({ images: [whole, image] }) };
    expect(forgotten([...history, current], foreign)).toEqual([oldest?.bundleId]);
  });

  it('goes although another pin is unclaimed', () => {
    const pinLedger = { releases: [], unclaimed: [referenceOf('other')], givenUp: [] };
    expect(forgotten([...history, current], { pinLedger })).toEqual([oldest?.bundleId]);
  });

  it('stays while a role or a signer is missing, and goes once a person or a revocation ended its trust', () => {
    const [first, ...others] = history;
    const of = (marks: Partial<StoredBundle>) => [{ ...(first as StoredBundle), ...marks }, ...others, current];
    const [keyId, second] = [keyIdOf('audit-2026'), keyIdOf('factory-2026')];
    const ofRole = of({ signerKeyIds: [keyId], signerRoles: [{ keyId, role: 'audit' }] });
    const audit = {
      name: 'audit',
      keyIds: [keyId],
      threshold: 1,
      streams: ['*'],
      repositories: ['quay.example.com'],
      mayRotate: false,
      mayKeepForLife: false,
    };
    expect(forgotten(ofRole)).not.toContain(oldest?.bundleId);
    expect(forgotten(ofRole, { roles: [audit] })).toEqual([oldest?.bundleId]);
    expect(forgotten(of({ signerKeyIds: [] }))).not.toContain(oldest?.bundleId);
    const revocations = { keyIds: [second], revocationsUnreadable: false };
    expect(forgotten(of({}), { revocations })).toEqual([oldest?.bundleId]);
    const verdicts = [{ bundleId: (first as StoredBundle).bundleId, verdict: 'rejected', at: NOON } as const];
    expect(forgotten(of({}), {}, new Set(), { verdicts })).toEqual([oldest?.bundleId]);
  });

  it('stays while the release to go back to is not whole', () => {
    expect(forgotten([...history, current], { runtime: reachable({ images: [] }) })).toEqual([]);
  });

  it('stays while it is the last activated one, or the one with the highest sequence', () => {
    const last = NOON - 1;
    const [first, ...others] = history;
    const unpinned = { ...(first as StoredBundle), activatedAt: last };
    expect(forgotten([unpinned, ...others, current])).not.toContain(unpinned.bundleId);
    const high = retired(90, { activatedAt: NOON - 99 * HOUR_MS, retiredAt: NOON - 90 * HOUR_MS });
    expect(forgotten([high, ...history, current])).not.toContain(high.bundleId);
  });
});

describe('what forgotten releases say about others', () => {
  const { bundleId, signedBy, signerKeyIds } = current;
  const SIGNED = { bundleId, signedBy, signerKeyIds, contents: { images: [] } };
  const speaker = (sequence: number, versions: readonly string[]): PastSpeaker => ({
    ...SIGNED,
    payload: {
      name: 'ocp',
      version: `4.${sequence}`,
      sequence,
      advisories: versions.map((version) => ({ version, deadend: true, reason: `by ${sequence}` })),
    },
  });

  it('is bounded by the versions that they speak about: the newest one counts for each', () => {
    const all = Array.from({ length: 200 }, (_, at) => speaker(at + 1, ['1.0', '1.1']));
    const kept = all.reduce<readonly PastSpeaker[]>(withSpeaker, []);
    expect(kept.map(({ payload }) => payload.advisories?.map(({ reason }) => reason))).toEqual([['by 200', 'by 200']]);
    const [both] = withSpeaker([speaker(5, ['1.0'])], speaker(4, ['1.0', '0.9']));
    expect(both?.payload.version).toBe('4.5');
    expect(withSpeaker([speaker(5, ['1.0'])], speaker(4, ['1.0', '0.9']))).toHaveLength(2);
  });

  it('is bounded where each speaks about other versions: the 200 newest of each stream stay', () => {
    const all = Array.from({ length: 203 }, (_, at) => speaker(at + 1, [`1.${at}`]));
    const other = { ...speaker(1, ['1.0']), payload: { ...speaker(1, ['1.0']).payload, name: 'tools' } };
    const kept = [other, ...all].reduce<readonly PastSpeaker[]>(withSpeaker, []);
    const sequences = kept.flatMap(({ payload }) => (payload.name === 'ocp' ? [payload.sequence] : []));
    expect(sequences).toEqual(Array.from({ length: 200 }, (_, at) => 203 - at));
    expect(kept).toHaveLength(201);
  });

  it('keeps a barrier of its own version, and nothing of a release that says nothing', () => {
    const barrier = { barrier: { reason: 'migrates etcd' } };
    const said = withSpeaker([], {
      ...SIGNED,
      payload: { name: 'ocp', version: '4.1', sequence: 1, update: barrier },
    });
    expect(said.map(({ payload }) => payload.update)).toEqual([barrier]);
    expect(withSpeaker(said, speaker(2, []))).toEqual(said);
  });
});

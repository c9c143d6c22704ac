import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  CONDITION_TYPES,
  type ConditionType,
  conditionsOf,
  marksAfter,
  reasonWord,
} from '../../../../src/domain/model/condition.ts';
import { judgeConditions } from '../../../../src/domain/report/judge-conditions.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import {
  allListed,
  digestOf,
  found,
  GIB,
  judge,
  keyIdOf,
  listed,
  medium,
  NOON,
  observation,
  pullOf,
  reachable,
  referenceOf,
  type Scene,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';

const bundle = verified();
const adopted = stored(bundle);
const ready = stored(bundle, { readyAt: NOON });
const activated = stored(bundle, { readyAt: NOON, activatedAt: NOON });
const complete = { runtime: reachable({ images: allListed(bundle) }) };
const away: Partial<Scene> = { runtime: { kind: 'unreachable', reason: 'no socket' } };
const unlisted: Partial<Scene> = { runtime: { kind: 'unlisted', name: 'cri-o 1.36.3', reason: 'locked' } };
const stick = { media: [medium('sdb1', [found(bundle)])] };
const newer = stored(verified({ version: '4.13.8', sequence: 8 }), { readyAt: NOON, activatedAt: NOON + 1 });

/** The conditions of the first bundle, each as `status reason`, and their messages. */
function look(over: Partial<Scene>, bundles: readonly StoredBundle[]) {
  const observed = observation(over);
  const { assessment } = judge(observed, bundles);
  const verdicts = [...judgeConditions(observed, observed, assessment).values()][0] ?? [];
  return {
    all: Object.fromEntries(verdicts.map(({ type, status, reason }) => [type, `${status} ${reason}`])),
    message: (type: ConditionType) => verdicts.find((verdict) => verdict.type === type)?.message ?? '',
  };
}

describe('judgeConditions (docs/architecture.md, "Conditions")', () => {
  it('follows a release from the stick to its activation', () => {
    expect(look({ ...stick, running: [pullOf(bundle, 'etcd')] }, [adopted]).all).toEqual({
      Verified: 'True SignedByTrustedKeys',
      SpaceAvailable: 'True EnoughSpace',
      Preloaded: 'False Preloading',
      Pinned: 'False ImagesMissing',
      Active: 'False NotActivated',
      Proven: 'False NotActivated',
      Degraded: 'False AsExpected',
    });
    expect(look({ ...stick, ...complete }, [ready]).all).toEqual({
      Verified: 'True SignedByTrustedKeys',
      SpaceAvailable: 'True NothingToLoad',
      Preloaded: 'True AllImagesPresent',
      Pinned: 'True AllPinned',
      Active: 'False NotActivated',
      Proven: 'False NotActivated',
      Degraded: 'False AsExpected',
    });
    expect(look(complete, [activated]).all).toMatchObject({
      Active: 'False NoContainers',
      Proven: 'False NoContainers',
    });
  });

  it('is Unknown where the runtime does not answer, and only there', () => {
    expect(look(away, [activated]).all).toEqual({
      Verified: 'True SignedByTrustedKeys',
      SpaceAvailable: 'Unknown RuntimeUnreachable',
      Preloaded: 'Unknown RuntimeUnreachable',
      Pinned: 'Unknown RuntimeUnreachable',
      Active: 'Unknown RuntimeUnreachable',
      Proven: 'False NoContainers',
      Degraded: 'Unknown RuntimeUnreachable',
    });
    const runtime = reachable({ filesystem: undefined });
    expect(look({ ...stick, runtime }, [adopted]).all.SpaceAvailable).toBe('Unknown FilesystemUnknown');
  });

  it('Verified: is False with the reason while the trust is withdrawn, and the release is degraded', () => {
    const revocations = { keyIds: [keyIdOf('factory-2026')], revocationsUnreadable: false };
    const { all, message } = look({ ...complete, revocations }, [activated]);
    expect(all).toMatchObject({
      Verified: 'False TrustKeyRevoked',
      Degraded: 'True TrustKeyRevoked',
      Pinned: 'True AllPinned',
    });
    expect(message('Degraded')).toContain(keyIdOf('factory-2026').slice(0, 12));
    expect(look({}, [stored({ ...bundle, signedBy: [], signerKeyIds: [] })]).all.Verified).toBe('False TrustThreshold');
  });

  it('SpaceAvailable: is False with what is needed, while something else holds the preload too', () => {
    const filesystem = { path: '/var/lib/containers', totalBytes: 40 * GIB, freeBytes: 6 * GIB };
    const { all, message } = look({ runtime: reachable({ filesystem }) }, [adopted]);
    expect(all).toMatchObject({ SpaceAvailable: 'False NotEnoughSpace', Preloaded: 'False HeldSpace' });
    expect(message('SpaceAvailable')).toContain('on /var/lib/containers: needs 75 MiB');
    const base = { update: { base: digestOf('base') }, layers: { base: { inBase: true as const } } };
    const delta = stored(verified(base));
    expect(look({ runtime: reachable({ filesystem }) }, [delta]).all).toMatchObject({
      SpaceAvailable: 'False NotEnoughSpace',
      Preloaded: 'False HeldBase',
    });
  });

  it('Preloaded: counts what is there, and says what it waits for', () => {
    const { all, message } = look({ runtime: reachable({ images: [listed(referenceOf('etcd'))] }) }, [adopted]);
    expect(all.Preloaded).toBe('False HeldMedia');
    expect(message('Preloaded')).toMatch(/^1 of 2 images present\. .*Plug it in again/);
  });

  it('Pinned: distinguishes late pins from ignored pins; the latter degrade the release', () => {
    const runtime = reachable({ images: [listed(referenceOf('etcd'), false), listed(referenceOf('api'))] });
    const asked = (attempts: number) => ({ references: [], unpinned: referenceOf('etcd'), attempts, at: NOON });
    const late = look({ runtime, pinsRequested: asked(1) }, [ready]);
    expect(late.all).toMatchObject({
      Preloaded: 'True AllImagesPresent',
      Pinned: 'False PinsPending',
      Degraded: 'False AsExpected',
    });
    expect(late.message('Pinned')).toBe('1 of 2 images reported pinned');
    const ignored = look({ runtime, pinsRequested: asked(9) }, [ready]);
    expect(ignored.all).toMatchObject({ Pinned: 'False PinsIgnored', Degraded: 'True PinsIgnored' });
    const unpinned = stored(verified({ imageOver: { etcd: { pin: false }, api: { pin: false } } }));
    expect(look({}, [unpinned]).all.Pinned).toBe('True NothingToPin');
  });

  it('Active and Proven: follow what is recorded of the soak', () => {
    const run = { key: 'p/etcd', containerId: 'c1', startedAt: NOON, sinceMs: 0 };
    const component = { component: 'etcd', counts: true, runs: [run], failed: [], startedAt: NOON };
    const soak = { activatedAt: NOON, bootId: 'boot-1', components: [component] };
    const active = stored(bundle, { readyAt: NOON, activatedAt: NOON, activeAt: NOON + 1, soak });
    const container = {
      containerId: 'c1',
      key: 'p/etcd',
      attempt: 0,
      imageNames: [referenceOf('etcd')],
      state: 'running' as const,
      startedAt: NOON,
      exitCode: 0,
    };
    const running = look({ ...complete, containers: [container], boot: { bootId: 'boot-1', uptimeMs: 60_000 } }, [
      active,
    ]);
    expect(running.all).toMatchObject({ Active: 'True ContainersRun', Proven: 'False Soaking' });
    expect(running.message('Proven')).toBe('proven in about 9 min');
    const proven = stored(bundle, { ...active, provenAt: NOON + 2 });
    expect(look(complete, [proven]).all).toMatchObject({ Active: 'True Proven', Proven: 'True SoakDone' });
    expect(look(complete, [proven, newer]).all).toMatchObject({
      Active: 'False OtherReleaseActivated',
      Proven: 'True SoakDone',
    });
    const gone = stored(bundle, { ...active, rolledBackAt: NOON + 3, rolledBackReason: 'ocp 4.13.6 runs again' });
    expect(look(complete, [gone]).all).toMatchObject({ Active: 'False RolledBack', Proven: 'False RolledBack' });
    expect(look(complete, [gone]).message('Active')).toMatch(/^ocp 4\.13\.6 runs again\. It is not activated again/);
  });

  it('Degraded: is True while images of a release that was ready are missing', () => {
    const { all, message } = look({}, [activated]);
    expect(all).toMatchObject({ Degraded: 'True ImageMissing', Preloaded: 'False ImagesMissing' });
    expect(message('Degraded')).toMatch(
      /^2 of 2 images of ocp 4\.13\.7 are missing\. .* Plug in the stick of ocp 4\.13\.7$/,
    );
    const mended = look(stick, [activated]);
    expect(mended.all.Degraded).toBe('True ImageMissing');
    expect(mended.message('Degraded')).toContain('2 of 2 images missing');
    const failure = {
      task: pullOf(bundle, 'etcd'),
      attempts: 3,
      reason: { code: 'runtime/policy', message: 'no' },
      retryAt: undefined,
    };
    expect(look({ ...stick, failures: [failure] }, [adopted]).all.Degraded).toBe('True RuntimePolicy');
  });

  it('name the version of a runtime that is too old', () => {
    const old = { runtime: reachable({ name: 'containerd 1.6.20~ds1' }) };
    expect(look({ ...stick, ...old }, [adopted]).all).toMatchObject({
      Preloaded: 'False HeldRuntimeVersion',
      Degraded: 'True RuntimeVersion',
    });
    const images = allListed(bundle).map((image) => ({ ...image, pinned: false }));
    const present = { runtime: reachable({ name: 'containerd 1.6.20~ds1', images }) };
    expect(look(present, [activated]).all.Pinned).toBe('False RuntimeVersion');
  });

  it('of a retired release give no advice', () => {
    const retired = stored(bundle, { ...activated, provenAt: NOON, retiredAt: NOON + 1 });
    for (const over of [{}, away, unlisted]) {
      expect(look(over, [retired, newer]).all).toEqual({
        Verified: 'True SignedByTrustedKeys',
        SpaceAvailable: 'True Retired',
        Preloaded: 'False Retired',
        Pinned: 'False Retired',
        Active: 'False Retired',
        Proven: 'False Retired',
        Degraded: 'False Retired',
      });
    }
  });

  it('are all seven of each release, with reasons as Kubernetes wants them', () => {
    const observed = observation(stick);
    const { assessment } = judge(observed, [activated, newer]);
    const judged = [...judgeConditions(observed, observed, assessment).values()];
    expect(judged).toHaveLength(2);
    for (const verdicts of judged) {
      expect(verdicts.map(({ type }) => type)).toEqual(CONDITION_TYPES);
      for (const { reason } of verdicts) expect(reason).toMatch(/^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$/);
    }
  });

  it('take little time for 1,000 images', () => {
    const images = Object.fromEntries(Array.from({ length: 1000 }, (_none, at) => [`i${at}`, ['base', `l${at}`]]));
    const large = stored(verified({ images }));
    const observed = observation(stick);
    const { assessment } = judge(observed, [large]);
    let looks = 0;
    const entry = assessment.bundles[0] ?? expect.unreachable();
    const counted = new Proxy(entry.bundle.contents.images, {
      get: (target, key) => {
        if (typeof key === 'string' && /^\d+$/.test(key)) looks += 1;
        return Reflect.get(target, key);
      },
    });
    const watched = { ...entry, bundle: { ...entry.bundle, contents: { ...entry.bundle.contents, images: counted } } };
    judgeConditions(observed, observed, { ...assessment, bundles: [watched] });
    expect(looks).toBeLessThanOrEqual(1000);
  });
});

describe('marksAfter', () => {
  const verdict = (status: 'True' | 'False', message: string) =>
    ({ type: 'Preloaded', status, reason: 'Some', message }) as const;

  it('keeps the time while the status stays, with any message, and returns the same object', () => {
    const first = marksAfter({}, [verdict('False', '1 of 2')], 1_000);
    expect(first).toEqual({ Preloaded: { status: 'False', since: 1_000 } });
    expect(marksAfter(first, [verdict('False', '2 of 2')], 2_000)).toBe(first);
    const then = marksAfter(first, [verdict('True', '2 of 2')], 3_000);
    expect(conditionsOf([verdict('True', '2 of 2')], then)).toEqual([
      { ...verdict('True', '2 of 2'), lastTransitionTime: '1970-01-01T00:00:03.000Z' },
    ]);
  });
});

describe('reasonWord: the reason of a condition', () => {
  it('is one word made from a code', () => {
    expect(reasonWord('trust/key-revoked')).toBe('TrustKeyRevoked');
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z]+\/[a-z]+(-[a-z0-9]+)*$/), (code) =>
        /^[A-Z][A-Za-z0-9]*$/.test(reasonWord(code)),
      ),
    );
  });
});

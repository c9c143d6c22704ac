import { expect, it } from 'vitest';
import { assess } from '../../../../src/domain/assess/assess.ts';
import { catalogOf } from '../../../../src/domain/decide/catalog.ts';
import { decide } from '../../../../src/domain/decide/decide.ts';
import type { VerifiedBundle } from '../../../../src/domain/model/bundle.ts';
import { conditionsOf, marksAfter } from '../../../../src/domain/model/condition.ts';
import { needsContainers } from '../../../../src/domain/release/running-releases.ts';
import { judgeConditions, judgeNodeConditions } from '../../../../src/domain/report/judge-conditions.ts';
import { reportOf } from '../../../../src/domain/report/report.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import {
  allListed,
  type BundleSpec,
  found,
  medium,
  NOON,
  observation,
  POLICY,
  reachable,
  stored,
  storedState,
  verified,
} from '../../../support/daemon/scenario.ts';

const IDLE = {
  doneBytes: 0,
  totalBytes: 0,
  bytesPerSecond: undefined,
  isUnpacking: false,
  waitingTransfers: 0,
  isStalled: false,
  landedImages: [],
};

type Marks = Partial<Omit<StoredBundle, keyof VerifiedBundle>>;

/** How often one round reads what a bundle is and has, with so many bundles on one stick. */
function readsOfRound(count: number, specOf: (n: number) => BundleSpec, marksOf?: (n: number) => Marks): number {
  let reads = 0;
  const counted = <B extends VerifiedBundle>(bundle: B): B => {
    const { payload, contents } = bundle;
    const seen = <T>(value: T) => {
      const get = () => {
        reads += 1;
        return value;
      };
      return { enumerable: true, get };
    };
    return Object.defineProperties({ ...bundle }, { payload: seen(payload), contents: seen(contents) });
  };
  const numbers = Array.from({ length: count }, (_, index) => index + 1);
  const bundles = numbers.map((n) => verified({ version: `1.0.${n}`, sequence: n, ...specOf(n) }));
  const known = marksOf === undefined ? [] : bundles.map((bundle, n) => counted(stored(bundle, marksOf(n + 1))));
  const images = known.flatMap(allListed);
  const scene = observation({
    runtime: reachable({ images }),
    media: [
      medium(
        'sdb1',
        bundles.map((bundle) => found(counted(bundle))),
      ),
    ],
    containers: [],
    imageUses: { uses: [], faults: [], isComplete: true },
  });
  const state = storedState(known, { pulledByUs: new Set(images.flatMap(({ repoDigests }) => repoDigests)) });
  reads = 0;
  round(scene, state);
  return reads;
}

function round(scene: ReturnType<typeof observation>, state: ReturnType<typeof storedState>): void {
  needsContainers(state, scene.runtime, POLICY, { isShort: false, sinceListMs: 0, tagsGiven: [], observed: scene });
  const assessment = assess(scene, scene, state, POLICY);
  decide(scene, scene, assessment, POLICY);
  catalogOf(scene, assessment, POLICY);
  judgeConditions(scene, scene, assessment);
  const snapshot = { observed: scene, memory: scene, assessment };
  const verdicts = judgeNodeConditions(snapshot);
  reportOf(snapshot, IDLE, new Map(), conditionsOf(verdicts, marksAfter({}, verdicts, NOON)));
}

const ownStream = (n: number): BundleSpec => ({ name: `app-${n}`, images: { [`app-${n}`]: ['base', `layer-${n}`] } });
const oneStream = (n: number): BundleSpec => ({ images: { [`app-${n}`]: ['base', `layer-${n}`] } });
const activated = (n: number): Marks => ({ readyAt: NOON, activatedAt: NOON + n });

it.each<[what: string, specOf: (n: number) => BundleSpec, marksOf?: (n: number) => Marks]>([
  ['on a stick, of as many streams', ownStream],
  ['on a stick, of one stream', oneStream],
  ['that are ready, of one stream', oneStream, () => ({ readyAt: NOON })],
  ['that were activated, of as many streams', ownStream, activated],
  ['that were activated, of one stream', oneStream, activated],
  ['that were proven, of as many streams', ownStream, (n) => ({ ...activated(n), provenAt: NOON + n })],
  [
    'that were rolled back, of one stream',
    oneStream,
    (n) => ({ ...activated(n), rolledBackAt: NOON + n, rolledBackReason: 'it failed' }),
  ],
  [
    'that are retired, of as many streams',
    ownStream,
    (n) => ({ ...activated(n), retiredAt: NOON + n + 1, removeImages: true }),
  ],
])('a round with four times as many releases %s takes four times the work', (_what, specOf, marksOf) => {
  const [few, many] = [40, 160].map((count) => readsOfRound(count, specOf, marksOf));
  expect(many).toBeLessThan(5 * (few ?? 0));
});

/** How often one round reads what is left of so many releases that are over. */
function readsOfPast(count: number): { readonly lines: number; readonly speakers: number } {
  const reads = { lines: 0, speakers: 0 };
  const counted = <T extends object>(value: T, kind: keyof typeof reads): T =>
    new Proxy(value, {
      get: (target, name) => {
        reads[kind] += 1;
        return Reflect.get(target, name) as unknown;
      },
    });
  const over = Array.from({ length: count }, (_, n) => verified({ version: `0.9.${n}`, sequence: n + 1 }));
  const { signedBy, signerKeyIds } = verified();
  const past = over.map(({ bundleId, payload }) => counted({ bundleId, payload, record: { adoptedAt: 1 } }, 'lines'));
  const speakers = over.map(({ bundleId, payload: { name, version, sequence } }) => {
    const advisories = [{ version: `0.8.${sequence}`, deadend: true, reason: 'it failed' }];
    return counted(
      { bundleId, signedBy, signerKeyIds, payload: { name, version, sequence, advisories }, contents: { images: [] } },
      'speakers',
    );
  });
  const current = verified({ version: '1.0.1', sequence: 1_001 });
  const next = verified({ version: '1.0.2', sequence: 1_002 });
  const known = [stored(current, { ...activated(1), provenAt: NOON })];
  const images = known.flatMap(allListed);
  const media = [medium('sdb1', [found(next)])];
  round(observation({ runtime: reachable({ images }), media, containers: [] }), storedState(known, { past, speakers }));
  return reads;
}

it('a round reads each line of 200 releases that are over once, and what they say about others in one pass', () => {
  const [few, many] = [readsOfPast(50), readsOfPast(200)];
  expect(many.lines).toBe(200);
  expect(few.speakers).toBeGreaterThan(0);
  expect(many.speakers).toBeLessThan(5 * few.speakers);
});

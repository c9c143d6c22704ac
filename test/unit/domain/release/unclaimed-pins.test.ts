import { describe, expect, it } from 'vitest';
import { assessPins } from '../../../../src/domain/release/unclaimed-pins.ts';
import type { PinLedger } from '../../../../src/domain/state/release-record.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import {
  judge,
  LEDGER,
  listed,
  NOON,
  observation,
  reachable,
  referenceOf,
  spoken,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';

const bundle = verified();
const [API, ETCD] = [referenceOf('api'), referenceOf('etcd')];
const FOREIGN = referenceOf('foreign');
const OWN = [API, ETCD].sort();
const kept = stored(bundle, { readyAt: NOON, activatedAt: NOON });
const retired = stored(bundle, { readyAt: NOON, activatedAt: NOON, retiredAt: NOON + 5 });
const release = { bundleId: bundle.bundleId, name: 'ocp', version: '4.13.7', references: OWN };
const ledger = (over: Partial<PinLedger> = {}): PinLedger => ({ ...LEDGER, ...over });

/** What becomes of the pins of one release, whose references the runtime shows as `found`. */
const judged = (over: {
  bundles?: readonly StoredBundle[];
  ledger?: PinLedger | undefined;
  found?: readonly string[];
  rendered?: readonly string[];
  isAway?: boolean;
}) => {
  const { bundles = [], found = OWN, rendered = found } = over;
  const runtime = over.isAway
    ? ({ kind: 'unreachable', reason: 'gone' } as const)
    : reachable({ renderedPins: rendered, foundPins: found });
  return assessPins({ bundles, ledger: 'ledger' in over ? over.ledger : ledger(), runtime });
};

describe('assessPins: a pin goes only when its release was retired or a person gave it up', () => {
  it.each<[what: string, over: Parameters<typeof judged>[0], unclaimed: readonly string[]]>([
    ['the database knows the release', { bundles: [kept] }, []],
    ['the release was retired, and the daemon died before it unpinned it', { bundles: [retired] }, []],
    ['the database does not know the release', {}, OWN],
    ['database and ledger were lost', { ledger: undefined }, OWN],
    [
      'database and ledger were lost, and a copy of the pins has to be rendered again',
      { ledger: undefined, rendered: [] },
      OWN,
    ],
    ['the runtime does not answer', { isAway: true, ledger: ledger({ unclaimed: OWN }), found: [] }, OWN],
    ['one copy of the rendered pins lost one of them', { ledger: ledger({ unclaimed: OWN }), found: [API] }, OWN],
    [
      'an earlier copy of the database has it retired, and it was activated again since',
      { bundles: [retired], ledger: ledger({ isDoubted: true }) },
      OWN,
    ],
    [
      'an earlier copy of the database has it retired, and the ledger is lost',
      { bundles: [retired], ledger: undefined },
      OWN,
    ],
    [
      'it was unclaimed before, and nothing shows it now',
      { ledger: ledger({ releases: [], unclaimed: OWN }), found: [] },
      OWN,
    ],
    ['it was given up, and the runtime still shows it', { ledger: ledger({ releases: [], givenUp: OWN }) }, []],
    [
      'another bundle that is known does not pin the image',
      { bundles: [stored(verified({ sequence: 6, imageOver: { api: { pin: false } } }))], ledger: undefined },
      [API],
    ],
  ])('%s', (_what, over, unclaimed) => {
    const pins = judged(over);
    expect(pins.unclaimed).toEqual([...unclaimed].sort());
    expect(pins.record.unclaimed).toEqual(pins.unclaimed);
  });

  it('says which release the unclaimed pins belong to, also after the database was lost twice', () => {
    const lost = { ledger: ledger({ releases: [release], unclaimed: OWN }), found: [...OWN, FOREIGN] };
    const first = judged(lost);
    expect(first.unclaimedReleases).toEqual([release, { references: [FOREIGN] }]);
    const again = judged({ ...lost, ledger: first.record });
    expect(again.unclaimedReleases).toEqual(first.unclaimedReleases);
  });

  it('has a release claim its pins when it is adopted again, and leaves the rest unclaimed', () => {
    const before = ledger({ releases: [release], unclaimed: [...OWN, FOREIGN] });
    const pins = judged({ bundles: [kept], ledger: before, found: [...OWN, FOREIGN] });
    expect(pins.claimed).toEqual(OWN);
    expect(pins.unclaimed).toEqual([FOREIGN]);
    expect(pins.record.releases).toEqual([]);
  });

  it('forgets given up pins as soon as the runtime no longer lists them, but not while it is unreachable', () => {
    const given = ledger({ releases: [], givenUp: OWN });
    expect(judged({ ledger: given, found: [API] }).record.givenUp).toEqual([API]);
    expect(judged({ ledger: given, isAway: true }).record.givenUp).toEqual(OWN);
    expect(judged({ ledger: given, bundles: [kept] }).record.givenUp).toEqual([]);
  });
});

describe('decide: unclaimed pins', () => {
  const images = [listed(API), listed(ETCD)];
  const lost = observation({
    pinLedger: undefined,
    runtime: reachable({ images, renderedPins: OWN, foundPins: OWN }),
  });

  it('requests them together with the pins of known releases', () => {
    const other = verified({ version: '4.13.8', sequence: 8, images: { other: ['other'] } });
    const { decision } = judge(lost, [stored(other)]);
    expect(decision.effects).toContainEqual(
      expect.objectContaining({ kind: 'apply-pins', references: [...OWN, referenceOf('other')].sort() }),
    );
  });

  it('requests them again when a present image is not reported as pinned', () => {
    const requested = { references: OWN, unpinned: '', attempts: 1, at: NOON };
    const quiet = judge({ ...lost, pinsRequested: requested });
    expect(spoken(quiet.decision.effects)).toEqual([]);
    const runtime = reachable({ images: [listed(API, false), listed(ETCD)], renderedPins: OWN, foundPins: OWN });
    expect(spoken(judge({ ...lost, runtime, pinsRequested: requested }).decision.effects)).toEqual(['apply-pins 2']);
  });

  it('removes no image of a retired release that an unclaimed pin names too', () => {
    const gone = stored(bundle, { readyAt: NOON, activatedAt: NOON, retiredAt: NOON + 5, removeImages: true });
    const removed = (unclaimed: readonly string[]) => {
      const twin = `mirror.example.com/ocp/api@${API.slice(API.indexOf('@') + 1)}`;
      const both = { ...listed(API, false), repoDigests: [API, twin] };
      const observed = observation({
        now: NOON + 10,
        containers: [],
        pinLedger: { ...LEDGER, unclaimed: unclaimed.map(() => twin) },
        runtime: reachable({ images: [both], renderedPins: [], foundPins: [] }),
      });
      const extra = stored(
        verified({ sequence: 5, images: { twin: ['twin'] }, imageOver: { twin: { reference: twin } } }),
        { retiredAt: 1 },
      );
      const { decision } = judge(observed, [extra, gone], undefined, { pulledByUs: new Set([API, ETCD, twin]) });
      return decision.effects.some(({ kind }) => kind === 'remove-images');
    };
    expect(removed([])).toBe(true);
    expect(removed(['twin'])).toBe(false);
  });

  it('is shown in STATUS', () => {
    const { assessment } = judge(lost);
    expect(assessment.pins.unclaimed).toEqual(OWN);
  });
});

import { describe, expect, it } from 'vitest';
import type { RuntimeObservation } from '../../../../src/domain/model/image.ts';
import { activationKey } from '../../../../src/domain/release/pulls.ts';
import { nodePullEvents } from '../../../../src/domain/report/events/release-events.ts';
import { judgeNodeConditions } from '../../../../src/domain/report/judge-conditions.ts';
import { withShortDigests } from '../../../../src/domain/report/names.ts';
import type { PullCheckEnd } from '../../../../src/domain/state/checks.ts';
import type { Observed, StoredBundle } from '../../../../src/domain/state/state.ts';
import {
  allListed,
  judge,
  NOON,
  observation,
  pinsOf,
  referenceOf,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';

const release = stored(verified({ images: { etcd: ['base'] } }), { readyAt: 1, activatedAt: 2 });
const REFERENCE = referenceOf('etcd');
const TAG = 'quay.example.com/ocp/etcd:4.13.7';
const runtime = (over: object = {}): RuntimeObservation => ({
  kind: 'reachable',
  name: 'fake 1',
  images: [{ imageId: 'x', repoTags: [TAG], repoDigests: [REFERENCE], pinned: true }],
  filesystem: undefined,
  renderedPins: [REFERENCE],
  renderedMirrors: ['quay.example.com/ocp/etcd'],
  ...over,
});
const seen = (end: PullCheckEnd | undefined, over: Partial<Observed> = {}, bundles = [release]) => {
  const last = end && { activation: activationKey([release]), reference: REFERENCE, at: NOON, attempts: 1, end };
  const scene = observation({ runtime: runtime(), pullChecks: { isRunning: false, last }, ...over });
  return { observed: scene, memory: scene, assessment: judge(scene, bundles).assessment };
};
const judged = (...args: Parameters<typeof seen>) =>
  Object.fromEntries(judgeNodeConditions(seen(...args)).map(({ type, ...rest }) => [type, rest]));
const reason = { code: 'runtime/pull-failed', message: 'connection refused' };
const failed = (isAsked: boolean, isSent: boolean): PullCheckEnd => ({ kind: 'failed', isAsked, isSent, reason });

describe('PullsAnswered', () => {
  it.each<[end: PullCheckEnd, status: string, word: string, text: RegExp]>([
    [{ kind: 'answered' }, 'True', 'PullAnswered', /stickpin's registry answered it$/],
    [{ kind: 'not-asked' }, 'False', 'RegistryNotAsked', /another registry .* fails without a network/],
    [
      { kind: 'not-sent' },
      'False',
      'ManifestNotSent',
      /has no manifest .* fails without a network\. Plug in the stick/,
    ],
    [
      failed(false, false),
      'False',
      'RegistryNotAsked',
      /requested nothing from stickpin's registry: connection refused\./,
    ],
    [failed(true, false), 'False', 'ManifestNotSent', /has no manifest .* connection refused\. Plug in the stick/],
    [failed(true, true), 'False', 'PullFailed', /although stickpin's registry answered: connection refused\. Read/],
    [{ kind: 'timed-out', afterMs: 8_000 }, 'False', 'PullTimedOut', /did not end within 8 s/],
    [{ kind: 'runtime-away', reason }, 'Unknown', 'RuntimeUnreachable', /could not be tested: connection refused/],
    [{ kind: 'image-gone' }, 'Unknown', 'ImageGone', /removed meanwhile/],
  ])('states what a test with the result %j has shown', (end, status, word, text) => {
    const { PullsAnswered } = judged(end);
    expect(PullsAnswered).toMatchObject({ status, reason: word, message: expect.stringMatching(text) });
    expect(PullsAnswered?.message).toContain(withShortDigests(REFERENCE));
  });

  it('is not known before a test, without a release, an image or a runtime', () => {
    expect(judged(undefined).PullsAnswered).toMatchObject({ status: 'Unknown', reason: 'NotTestedYet' });
    expect(judged(undefined, {}, []).PullsAnswered).toMatchObject({ reason: 'NothingActivated' });
    expect(judged(undefined, { runtime: runtime({ images: [] }) }).PullsAnswered).toMatchObject({
      status: 'Unknown',
      reason: 'NothingPresent',
    });
    const away = { runtime: { kind: 'unreachable', reason: 'ENOENT' } } as const;
    expect(judged({ kind: 'answered' }, away).PullsAnswered).toMatchObject({
      status: 'Unknown',
      reason: 'RuntimeUnreachable',
    });
  });

  it('is false where the runtime has no mirror of ours', () => {
    expect(judged(undefined, { runtime: runtime({ renderedMirrors: [] }) }).PullsAnswered).toMatchObject({
      status: 'False',
      reason: 'NoMirror',
    });
  });

  it('ignores a test of an earlier activation', () => {
    const again = { ...release, activatedAt: 3 };
    expect(judged({ kind: 'answered' }, {}, [again]).PullsAnswered).toMatchObject({ reason: 'NotTestedYet' });
  });
});

describe('PullsFromElsewhere', () => {
  const uses = (count: number) =>
    Array.from({ length: count }, (_, at) => ({ usedBy: `Pod p${at}, container c`, image: `quay.io/x/p${at}:1` }));
  const elsewhere = (imageUses: Observed['imageUses']) => judged(undefined, { imageUses }).PullsFromElsewhere;

  it('names the images, who asks for them, and the files that could not be read', () => {
    const faults = [{ code: 'host/static-pods', message: 'static pod /m/a.yaml is bad' }];
    const verdict = elsewhere({ uses: uses(2), faults, isComplete: true });
    expect(verdict).toMatchObject({ status: 'True', reason: 'NamesNotProvided' });
    expect(verdict?.message).toBe(
      'no activated release answers a pull of 2 images, so that it fails without a network: quay.io/x/p0:1 (Pod p0, container c), quay.io/x/p1:1 (Pod p1, container c). Add them to a bundle under these names, or use names that a release provides. Not known: static pod /m/a.yaml is bad',
    );
    expect(elsewhere({ uses: uses(30), faults: [], isComplete: true })?.message).toContain(', and 10 more. Add them');
  });

  it('names the release that provides an image once it is activated', () => {
    const next = stored(verified({ version: '4.13.9', sequence: 9, schedule: 'manual' }), { readyAt: 1 });
    const image = next.contents.images[0]?.tags[0] ?? '';
    const used = (count: number) => ({
      uses: [{ usedBy: 'Pod a, container c', image }, ...uses(count)],
      faults: [],
      isComplete: true,
    });
    const message = (count: number) =>
      judged(undefined, { imageUses: used(count) }, [release, next]).PullsFromElsewhere?.message;
    expect(message(0)).toContain(
      `${image} (Pod a, container c; ocp@4.13.9 provides it once it is activated). Activate ocp@4.13.9, or use names`,
    );
    expect(message(1)).toContain(
      'Activate ocp@4.13.9, and add the other one to a bundle under this name, or use names',
    );
  });

  it('counts a tag that is given back as provided: a rollback is no reason to warn', () => {
    const shared = 'quay.example.com/ocp/app:stable';
    const of = (sequence: number) =>
      verified({
        sequence,
        version: `4.13.${sequence}`,
        images: { [`app${sequence}`]: ['app'] },
        imageOver: { [`app${sequence}`]: { tags: [shared] } },
      });
    const older = stored(of(6), { readyAt: 1, activatedAt: 2, provenAt: 3, activationRequestedAt: 6 });
    const newer = stored(of(7), { readyAt: 1, activatedAt: 4, rolledBackAt: 5, rolledBackReason: 'no' });
    const images = [older, newer].flatMap((one) => allListed(one));
    const imageUses = { uses: [{ usedBy: 'Pod a, container c', image: shared }], faults: [], isComplete: true };
    const condition = (bundles: StoredBundle[]) =>
      judged(undefined, { imageUses, runtime: runtime({ images, renderedPins: pinsOf(older, newer) }) }, bundles)
        .PullsFromElsewhere;
    expect(condition([older, newer])).toMatchObject({ status: 'False', reason: 'AllProvided' });
    const { activationRequestedAt: _, ...unasked } = older;
    expect(condition([unasked, newer])).toMatchObject({ status: 'True' });
  });

  it('is False when every image is provided, and Unknown when something could not be checked', () => {
    const provided = [{ usedBy: 'Pod a, container c', image: TAG }];
    expect(elsewhere({ uses: provided, faults: [], isComplete: true })).toMatchObject({
      status: 'False',
      reason: 'AllProvided',
    });
    expect(elsewhere({ uses: provided, faults: [], isComplete: false })).toMatchObject({
      status: 'Unknown',
      reason: 'NotAllLookedAt',
      message: 'the containers could not be listed',
    });
    expect(elsewhere(undefined)).toMatchObject({ status: 'Unknown', reason: 'NotLookedAt' });
  });
});

describe('the events of these conditions', () => {
  const kinds = (before: Parameters<typeof seen> | undefined, after: Parameters<typeof seen>) =>
    nodePullEvents(before && seen(...before), seen(...after)).map(({ kind }) => kind);
  const imageUses = { uses: [{ usedBy: 'Pod a', image: 'quay.io/x/y:1' }], faults: [], isComplete: true };

  it('report a change once', () => {
    const bad = failed(true, true);
    expect(kinds([undefined], [bad])).toEqual(['pullsUnanswered']);
    expect(kinds([bad], [bad])).toEqual([]);
    expect(kinds([bad], [{ kind: 'answered' }])).toEqual(['pullsAnswered']);
    expect(kinds([undefined], [{ kind: 'answered' }])).toEqual([]);
    expect(kinds(undefined, [undefined, { imageUses }])).toEqual(['pullsFromElsewhere']);
    expect(kinds([undefined, { imageUses }], [undefined, { imageUses }])).toEqual([]);
  });

  it('are silent about mirrors, which come and go while they are written', () => {
    expect(kinds([undefined], [undefined, { runtime: runtime({ renderedMirrors: [] }) }])).toEqual([]);
  });
});

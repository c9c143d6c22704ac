import { describe, expect, it } from 'vitest';
import type { Digest } from '../../../../../src/domain/model/digest.ts';
import { documentCheckDue, documentCheckOf } from '../../../../../src/domain/release/damaged-images.ts';
import type { DocumentCheck, PullCheckEnd } from '../../../../../src/domain/state/checks.ts';
import { digestOf, NOON, observation, stored, verified } from '../../../../support/daemon/scenario.ts';

const ready = stored(verified({ images: { etcd: ['base'], api: ['base'] } }), { readyAt: 1, activatedAt: 2 });
const kept = new Set([digestOf('manifest')]);
const seen = observation({ localBlobs: kept });
const look = documentCheckOf([ready], seen);
const looked = (over: Partial<DocumentCheck> = {}): DocumentCheck => ({
  ...look,
  at: NOON,
  kept,
  lacking: new Set(),
  lackingChecks: 1,
  ...over,
});
const lacking = new Set([ready.contents.images[0]?.reference ?? '']);
const due = (last: DocumentCheck | undefined, over: Partial<typeof seen> = {}, end?: PullCheckEnd, isRunning = false) =>
  documentCheckDue(
    [ready],
    { ...seen, ...over },
    { isRunning, last },
    end && { isRunning: false, last: { activation: '', reference: '', at: NOON + 1, attempts: 1, end } },
  );

describe('documentCheckDue', () => {
  it('looks once after the start, at all images of releases that were complete, and for a new release', () => {
    expect(due(undefined)).toEqual({ kind: 'now', plan: look });
    expect(look.images.map(({ reference }) => reference)).toEqual(ready.contents.images.map((one) => one.reference));
    expect(due(looked())).toEqual({ kind: 'later', at: undefined });
    expect(due(looked({ releases: 'others' }))).toEqual({ kind: 'now', plan: look });
    expect(due(undefined, {}, undefined, true)).toEqual({ kind: 'later', at: undefined });
  });

  it('looks at nothing of a release that was never complete, or is retired', () => {
    const never = documentCheckDue([stored(verified())], seen, { isRunning: false, last: undefined }, undefined);
    const retired = [{ ...ready, retiredAt: 2 }];
    expect(never).toEqual({ kind: 'later', at: undefined });
    expect(documentCheckDue(retired, seen, { isRunning: false, last: undefined }, undefined)).toEqual(never);
  });

  it('looks at a release that waits for its activation when it has documents, as an envelope has not', () => {
    const { activatedAt: _never, ...waiting } = ready;
    const all = (...localBlobs: readonly Digest[]) =>
      documentCheckOf([waiting], { ...seen, localBlobs: new Set(localBlobs) }).images;
    expect(all()).toEqual([]);
    expect(all(waiting.contents.images[0]?.digest ?? digestOf('none'))).toEqual(look.images);
  });

  it('looks for what is lacking when the media have changed, soon after the first look, and then less and less often', () => {
    expect(due(looked({ lacking }))).toEqual({ kind: 'later', at: NOON + 5_000 });
    expect(due(looked({ lacking }), { now: NOON + 5_000 })).toMatchObject({ kind: 'now' });
    expect(due(looked({ lacking, lackingChecks: 2 }))).toEqual({ kind: 'later', at: NOON + 20_000 });
    expect(due(looked({ lacking, lackingChecks: 9 }))).toEqual({ kind: 'later', at: NOON + 300_000 });
    expect(due(looked({ lacking, media: 'others' }))).toMatchObject({ kind: 'now' });
    expect(due(looked({ media: 'others' }))).toEqual({ kind: 'later', at: undefined });
    // The clock was set back.
    expect(due(looked({ lacking, at: NOON + 1 }))).toMatchObject({ kind: 'now' });
  });

  it('looks again when a document is listed no more, at most once a minute', () => {
    expect(due(looked(), { localBlobs: new Set() })).toEqual({ kind: 'later', at: NOON + 60_000 });
    expect(due(looked(), { localBlobs: new Set(), now: NOON + 60_000 })).toMatchObject({ kind: 'now' });
  });

  it.each<[PullCheckEnd, 'now' | 'later']>([
    [{ kind: 'not-sent' }, 'now'],
    [{ kind: 'failed', isAsked: true, isSent: false, reason: { code: 'x', message: 'x' } }, 'now'],
    [{ kind: 'failed', isAsked: true, isSent: true, reason: { code: 'x', message: 'x' } }, 'later'],
    [{ kind: 'not-asked' }, 'later'],
    [{ kind: 'answered' }, 'later'],
  ])('looks again after a test pull that ended as %j: %s', (end, kind) => {
    expect(due(looked(), {}, end).kind).toBe(kind);
    expect(due(looked({ at: NOON + 2 }), { now: NOON + 3 }, end).kind).toBe('later');
  });
});

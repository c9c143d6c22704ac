import { describe, expect, it } from 'vitest';
import type { LineUp } from '../../../../src/domain/preload/pull-queue.ts';
import { createSuccession } from '../../../../src/engine/effects/pull-queue.ts';
import { digestOf } from '../../../support/daemon/scenario.ts';

const pull = (reference: string) => ({
  reference,
  missingLayers: [],
  task: { kind: 'pull', bundleId: digestOf('bundle'), reference } as const,
});
const lineUp: LineUp = { waiting: [pull('b'), pull('c')], running: [pull('a')], landed: new Set(), parallel: 1 };

const starting = (...references: string[]) => ({ starts: references.map((one) => pull(one).task), needsRound: false });
const aRound = { starts: [], needsRound: true };
const nothingYet = { starts: [], needsRound: false };

describe('the succession of pulls', () => {
  it('follows what a round decided, one after the other, until a round must tell', () => {
    const succession = createSuccession();
    succession.begin();
    expect(succession.decided(lineUp)).toEqual(nothingYet);
    expect(succession.after('a')).toEqual(starting('b'));
    expect(succession.after('b')).toEqual(starting('c'));
    expect(succession.after('c')).toEqual(aRound);
  });

  it('lets nothing follow before the first decision, nor after something asked for a round', () => {
    const succession = createSuccession();
    expect(succession.after('a')).toEqual(aRound);
    succession.begin();
    succession.decided(lineUp);
    succession.stop();
    expect(succession.after('a')).toEqual(aRound);
  });

  it('waits for the decision of a round that looks, and then goes on after what ended meanwhile', () => {
    const succession = createSuccession();
    succession.begin();
    expect(succession.after('a')).toEqual(nothingYet);
    expect(succession.decided(lineUp)).toEqual(starting('b'));
    succession.begin();
    expect(succession.after('b')).toEqual(nothingYet);
    expect(succession.decided(undefined)).toEqual(aRound);
  });

  it('does not take up what was decided on an observation that something made doubtful meanwhile', () => {
    const succession = createSuccession();
    succession.begin();
    succession.stop();
    expect(succession.after('a')).toEqual(aRound);
    expect(succession.decided(lineUp)).toEqual(nothingYet);
    expect(succession.after('a')).toEqual(aRound);
  });
});

import { describe, expect, it } from 'vitest';
import { knownFromReport, type ReportedRelease } from '../../../../../src/domain/release/rebuild.ts';
import { digestOf, NOON } from '../../../../support/daemon/scenario.ts';

const at = (minutes: number) => new Date(NOON + minutes * 60_000).toISOString();
const bundleId = digestOf('bundle');
const release = (over: Partial<ReportedRelease> = {}): ReportedRelease => ({
  bundleId,
  phase: 'activated',
  adoptedAt: at(0),
  readyAt: at(1),
  activatedAt: at(2),
  ...over,
});
const condition = (type: string, status: string, reason: string, minutes: number) => ({
  type,
  status,
  reason,
  lastTransitionTime: at(minutes),
});

describe('knownFromReport', () => {
  it('has the times of a release, and when it was proven from its condition', () => {
    const proven = release({ phase: 'proven', conditions: [condition('Proven', 'True', 'Proven', 9)] });
    expect(knownFromReport([proven])).toEqual([
      { bundleId, adoptedAt: NOON, readyAt: NOON + 60_000, activatedAt: NOON + 120_000, provenAt: NOON + 540_000 },
    ]);
  });

  it('dates the proof of a fallback no earlier than its activation', () => {
    const fallback = release({ phase: 'superseded', conditions: [condition('Proven', 'True', 'Proven', -9)] });
    expect(knownFromReport([fallback])[0]?.provenAt).toBe(NOON + 120_000);
  });

  it('reports a rolled back release as rolled back', () => {
    const back = release({ conditions: [condition('Active', 'False', 'RolledBack', 5)] });
    expect(knownFromReport([back])[0]).toMatchObject({ rolledBackAt: NOON + 300_000 });
  });

  it.each<{ what: string; over: Partial<ReportedRelease> }>([
    { what: 'a retired release', over: { phase: 'retired' } },
    { what: 'a time that is none', over: { adoptedAt: 'yesterday' } },
  ])('leaves out $what', ({ over }) => {
    expect(knownFromReport([release(over)])).toEqual([]);
  });

  it('leaves out a bundle that was not adopted', () => {
    expect(knownFromReport([{ bundleId, phase: 'held' }])).toEqual([]);
  });
});

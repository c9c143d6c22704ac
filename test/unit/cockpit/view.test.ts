import { describe, expect, it } from 'vitest';
import {
  actionsOf,
  graphOf,
  hasFallback,
  headlineOf,
  othersOf,
  timeText,
  titleOf,
  toneOfBundle,
  toneOfCondition,
  transferOf,
} from '../../../packaging/cockpit/view.ts';
import type { BundleReport } from '../../../src/domain/report/status-schema.ts';
import { idleReport } from '../../support/bus/fake-backend.ts';

const bundleOf = (over: Partial<BundleReport> = {}): BundleReport => ({
  bundleId: `sha256:${'a'.repeat(64)}`,
  name: 'ocp',
  version: '4.13.7',
  sequence: 7,
  phase: 'ready',
  signedBy: ['factory-2026'],
  media: ['sdb1'],
  images: { total: 2, present: 2, pinned: 2 },
  sizeBytes: 1_024,
  adoptedAt: '2026-03-10T12:00:00.000Z',
  ...over,
});

describe('the headline', () => {
  const advice = { action: 'call-support', words: 'CALL SUPPORT', code: 'K-03', text: 'The key is revoked.' } as const;
  const revoked = { code: 'K-03', message: 'The key is revoked.' };
  const full = { code: 'S-01', message: 'There is no space.', bundle: 'ocp@4.13.7' };

  it('is what a person has to do, with its code', () => {
    const report = { ...idleReport(), advice };
    expect(headlineOf(report)).toEqual({ tone: 'danger', title: 'CALL SUPPORT', code: 'K-03', text: advice.text });
  });

  it('has below it what else ends only by a person, and not the same once more', () => {
    expect(othersOf({ ...idleReport(), advice, needsPerson: [revoked] })).toEqual([]);
    expect(othersOf({ ...idleReport(), advice, needsPerson: [full] })).toEqual([full]);
    expect(othersOf({ ...idleReport(), advice, needsPerson: [revoked, full] })).toEqual([revoked, full]);
  });
});

describe('the bar', () => {
  const progress = {
    doneBytes: 1024 ** 3,
    totalBytes: 4 * 1024 ** 3,
    bytesPerSecond: 1024 ** 2 * 64,
    images: ['etcd'],
  };

  it('says how far a preload is', () => {
    expect(transferOf(idleReport({ operation: 'preloading', progress }))).toEqual({
      percent: 25,
      text: '1.0 of 4.0 GiB, 64 MiB/s, about 48 s left',
      images: ['etcd'],
    });
  });

  it('is absent when none runs', () => {
    expect(transferOf(idleReport({ progress }))).toBeUndefined();
    expect(transferOf(idleReport({ operation: 'preloading' }))).toBeUndefined();
  });
});

describe('the buttons of a bundle', () => {
  it.each<[string, Partial<BundleReport>, readonly string[]]>([
    ['a ready release', {}, ['activate', 'reject']],
    ['the current release', { phase: 'active', current: true }, ['reject']],
    ['the fallback', { phase: 'superseded' }, ['activate', 'reject']],
    ['one that is being loaded', { phase: 'preloading' }, ['reject']],
    ['one that waits for approval', { phase: 'held', hold: 'approval' }, ['approve', 'reject']],
    ['one that a person rejected', { phase: 'rejected' }, ['approve']],
    ['one that is given up', { phase: 'retired' }, []],
  ])('%s', (_what, over, actions) => {
    expect(actionsOf(bundleOf(over))).toEqual(actions);
  });
});

describe('a bundle', () => {
  it('is named by its digest while no trusted key signed it', () => {
    expect(titleOf(bundleOf())).toBe('ocp 4.13.7');
    expect(titleOf(bundleOf({ name: '', version: '' }))).toBe('Bundle sha256:aaaaaaaaaaaa…');
  });

  it('has the colour of its phase, or of what is wrong with it', () => {
    expect(toneOfBundle(bundleOf())).toBe('info');
    expect(toneOfBundle(bundleOf({ phase: 'proven' }))).toBe('good');
    expect(toneOfBundle(bundleOf({ phase: 'proven', degraded: { code: 'x', message: 'y' } }))).toBe('danger');
  });

  it('is a fallback when another release of its stream is current', () => {
    const current = bundleOf({ phase: 'active', current: true });
    const before = bundleOf({ version: '4.13.6', phase: 'superseded', current: false });
    expect(hasFallback(idleReport({ bundles: [current, before] }), 'ocp')).toBe(true);
    expect(hasFallback(idleReport({ bundles: [current] }), 'ocp')).toBe(false);
    expect(hasFallback(idleReport({ bundles: [current, before] }), 'other')).toBe(false);
  });
});

describe('a condition', () => {
  it.each([
    ['Pinned', 'True', 'good'],
    ['Pinned', 'False', 'none'],
    ['Pinned', 'Unknown', 'warning'],
    ['Degraded', 'True', 'danger'],
    ['Degraded', 'False', 'good'],
    ['PullsAnswered', 'False', 'danger'],
  ])('%s is %s: %s', (type, status, tone) => {
    expect(toneOfCondition({ type, status, reason: '' })).toBe(tone);
  });

  it('without anything that it could be about is neither good nor bad', () => {
    expect(toneOfCondition({ type: 'PullsAnswered', status: 'Unknown', reason: 'NothingActivated' })).toBe('none');
  });
});

describe('the update graph', () => {
  it('has the newest release first, and an edge for each way between releases that are shown', () => {
    const graph = graphOf({
      name: 'ocp',
      current: { version: '4.13.6', source: 'activated' },
      next: '4.13.7',
      notes: [],
      releases: [
        { version: '4.13.5', phase: 'superseded', from: [] },
        { version: '4.13.6', phase: 'proven', from: ['4.13.5', '4.12.0'], barrier: 'migrates etcd' },
        { version: '4.13.7', phase: 'ready', from: ['4.13.6', '4.13.5'] },
      ],
    });
    expect(graph.rows.map(({ version, notes }) => [version, ...notes])).toEqual([
      ['4.13.7', 'next'],
      ['4.13.6', 'current', 'barrier: migrates etcd'],
      ['4.13.5'],
    ]);
    expect(graph.edges).toEqual([
      { from: 1, to: 0 },
      { from: 2, to: 0 },
      { from: 2, to: 1 },
    ]);
  });
});

it('shows a text that is no time as it is', () => {
  expect(timeText('soon')).toBe('soon');
});

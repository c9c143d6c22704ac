import { describe, expect, it } from 'vitest';
import { reportChanges } from '../../../../src/domain/report/report-changes.ts';
import { idleReport } from '../../../support/bus/fake-backend.ts';

const NOTHING = { preloadedBytes: 0, preloadedMs: 0, rejections: [], media: [] };
const medium = (name: string, state = 'read') => ({ medium: name, state, bundles: 1 });
const rejected = (path: string, code = 'bundle/signature') => ({
  medium: 'sdb1',
  path,
  reason: { code, message: 'no' },
});
const preloading = (doneBytes: number, totalBytes = 100) =>
  idleReport({ operation: 'preloading', progress: { doneBytes, totalBytes } });

describe('what counters count between two reports', () => {
  it('is nothing while nothing changes', () => {
    const report = idleReport({ media: [medium('sdb1')], rejected: [rejected('a')] });
    expect(reportChanges(report, report, 1_000)).toEqual(NOTHING);
  });

  it('is what is there at the first one', () => {
    expect(reportChanges(undefined, idleReport({ media: [medium('sdb1')], rejected: [rejected('a')] }), 0)).toEqual({
      ...NOTHING,
      rejections: ['bundle/signature'],
      media: ['plugged'],
    });
  });

  it('is each medium that comes, goes or can not be read, once', () => {
    const [one, both] = [
      idleReport({ media: [medium('a')] }),
      idleReport({ media: [medium('a'), medium('b', 'failed')] }),
    ];
    expect(reportChanges(one, both, 0).media).toEqual(['plugged', 'failed']);
    expect(reportChanges(both, both, 0).media).toEqual([]);
    expect(reportChanges(both, one, 0).media).toEqual(['removed']);
  });

  it('is each rejection by its code, again when the code is another', () => {
    const [one, other] = [idleReport({ rejected: [rejected('a')] }), idleReport({ rejected: [rejected('a', 'x/y')] })];
    expect(reportChanges(one, other, 0).rejections).toEqual(['x/y']);
  });

  it('is the time and the bytes of a preload, and not those of one before', () => {
    expect(reportChanges(preloading(10), preloading(30), 2_000)).toMatchObject({
      preloadedBytes: 20,
      preloadedMs: 2_000,
    });
    expect(reportChanges(preloading(90), preloading(10), 0).preloadedBytes).toBe(0);
    expect(reportChanges(preloading(10), preloading(30, 200), 0).preloadedBytes).toBe(0);
    expect(reportChanges(idleReport(), preloading(30), 2_000).preloadedMs).toBe(0);
  });
});

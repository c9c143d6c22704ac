import { describe, expect, it } from 'vitest';
import { reportChanges } from '../../../../src/domain/report/snapshot.ts';
import { idleReport } from '../../../support/bus/fake-backend.ts';

const NOTHING = { preloadedMs: 0, rejections: [], media: [] };
const medium = (name: string, state = 'read') => ({ medium: name, kind: 'stick' as const, state, bundles: 1 });
const rejected = (path: string, code = 'bundle/signature') => ({
  medium: 'sdb1',
  path,
  reason: { code, message: 'no' },
});
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

  it('is the time of a preload', () => {
    const preloading = idleReport({ operation: 'preloading' });
    expect(reportChanges(preloading, idleReport(), 2_000).preloadedMs).toBe(2_000);
    expect(reportChanges(idleReport(), preloading, 2_000).preloadedMs).toBe(0);
  });
});

import { describe, expect, it } from 'vitest';
import { reportOf } from '../../../../src/domain/report/report.ts';
import { parseOwnReport } from '../../../../src/fleet/publish/own-report.ts';
import { found, judge, medium, observation, stored, verified } from '../../../support/daemon/scenario.ts';

const bundle = verified();

describe('parseOwnReport', () => {
  it('reads what the daemon writes', () => {
    const observed = observation({ media: [medium('sdb1', [found(bundle)])] });
    const progress = { doneBytes: 3, totalBytes: 9, waitingTransfers: 0 };
    const { assessment } = judge(observed, [stored(bundle)]);
    const document = reportOf({ observed, memory: observed, assessment }, progress);
    const parsed = parseOwnReport(JSON.stringify({ ...document, writtenAt: '2026-11-23T10:00:00Z', bootId: 'x' }));
    expect(parsed).toMatchObject({
      kind: 'report',
      report: { bundles: [{ bundleId: bundle.bundleId, name: 'ocp', version: '4.13.7' }] },
    });
  });

  it.each([
    ['', /JSON/],
    ['{"runtime":', /JSON/],
    ['[]', /^runtime: /],
    ['{"runtime":{"reachable":true}}', /^bundles: /],
  ])('says in one line what is wrong with %j', (text, why) => {
    expect(parseOwnReport(text)).toEqual({ kind: 'foreign', why: expect.stringMatching(why) });
  });
});

import { describe, expect, it } from 'vitest';
import { objectsOf, reportOfObjects } from '../../../../src/api/properties/objects.ts';
import {
  bundleTable,
  decodeObjects,
  encodeManagedObjects,
  encodeProperties,
  managerTable,
} from '../../../../src/api/properties/properties.ts';
import { idleReport, sampleReport } from '../../../support/bus/fake-backend.ts';

describe('the objects of the API', () => {
  it('carry a report to the client unchanged', () => {
    for (const report of [idleReport(), sampleReport()]) {
      const objects = objectsOf(report);
      const read = decodeObjects(encodeProperties(managerTable, objects.manager), encodeManagedObjects(objects));
      expect(JSON.stringify(reportOfObjects(read))).toBe(JSON.stringify(report));
    }
  });

  it('have each property in the sample of the test above', () => {
    const { manager, bundles } = objectsOf(sampleReport());
    const known = [managerTable, bundleTable].map(({ fields }) => fields.map(([key]) => key).sort());
    const shown = new Set([...bundles.values()].flatMap((values) => Object.keys(values)));
    expect([Object.keys(manager).sort(), [...shown].sort()]).toEqual(known);
  });

  it('give no report when the answers do not fit together', () => {
    const { manager, bundles } = objectsOf(sampleReport());
    const [first] = bundles;
    expect(reportOfObjects({ manager, bundles: new Map(first && [first]) })).toBeUndefined();
    expect(reportOfObjects({ manager: { ...manager, bundles: [] }, bundles })).toBeUndefined();
  });

  it('represent a starting daemon', () => {
    const { manager, bundles } = objectsOf(undefined);
    expect(manager).toMatchObject({
      started: false,
      status: 'WAIT: stickpin is starting.',
      operation: 'idle',
      lastError: '',
      bundles: [],
    });
    expect(bundles.size).toBe(0);
  });

  it('have the percentage of the transfer', () => {
    const percentage = (doneBytes: number, totalBytes: number) =>
      objectsOf(idleReport({ progress: { doneBytes, totalBytes } })).manager.progress.percentage;
    expect([percentage(0, 0), percentage(0, 3), percentage(2, 3), percentage(3, 3)]).toEqual([100, 0, 66, 100]);
  });

  it('have the error of the last rejection, then that of the newest bundle', () => {
    const lastError = (over: Parameters<typeof idleReport>[0]) => objectsOf(idleReport(over)).manager.lastError;
    const [ready, held] = sampleReport().bundles.map((bundle) => ({ ...bundle, activationHolds: [] }));
    if (ready === undefined || held === undefined) throw new Error('two bundles');
    const needsCopy = { code: 'engine/needs-copy', message: 'needs a copy' };
    expect(lastError({})).toBe('');
    expect(lastError({ bundles: [ready, held] })).toBe('Its activation is held');
    expect(lastError({ bundles: [ready, { ...held, reason: needsCopy }] })).toBe('Its activation is held');
    expect(lastError({ bundles: [{ ...held, reason: needsCopy }] })).toBe('needs a copy');
    expect(lastError({ bundles: [ready], rejected: sampleReport().rejected })).toBe('signed by nobody');
  });
});

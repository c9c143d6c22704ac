import { describe, expect, it } from 'vitest';
import { parseReport, reportOf } from '../../../packaging/cockpit/decode.ts';
import { BUNDLE } from '../../../src/api/contract.ts';
import { objectsOf } from '../../../src/api/properties/objects.ts';
import { encodeManagedObjects, encodeProperties, managerTable } from '../../../src/api/properties/properties.ts';
import type { StatusReport } from '../../../src/domain/report/status-schema.ts';
import { idleReport, sampleReport } from '../../support/bus/fake-backend.ts';

/** Values as cockpit.js gives them: variants as `{ t, v }`, and each number as a number. */
function inCockpit(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value);
  if (Array.isArray(value)) return value.map(inCockpit);
  if (typeof value !== 'object' || value === null) return value;
  if ('signature' in value && 'value' in value) return { t: value.signature, v: inCockpit(value.value) };
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, inCockpit(one)]));
}

function overTheBus(report: StatusReport): StatusReport | undefined {
  const objects = objectsOf(report);
  const manager = inCockpit(encodeProperties(managerTable, objects.manager)) as Record<string, unknown>;
  const managed = inCockpit(encodeManagedObjects(objects)) as Record<string, Record<string, Record<string, unknown>>>;
  return reportOf(manager, new Map(Object.entries(managed).map(([path, ifaces]) => [path, ifaces[BUNDLE] ?? {}])));
}

describe('the report in the page', () => {
  it.each([
    ['of an idle daemon', idleReport()],
    ['in which every member is present', sampleReport()],
  ])('is the one that the daemon sent: %s', (_what, report) => {
    expect(overTheBus(report)).toEqual(report);
  });

  it('is read from the file of the daemon', () => {
    const report = sampleReport();
    const document = JSON.parse(JSON.stringify({ schemaVersion: 1, ...report, writtenAt: '2026-03-10T12:00:00.000Z' }));
    expect(parseReport(document)).toEqual(report);
  });

  it.each([
    ['nothing', undefined],
    ['a list', []],
    ['a report without members', {}],
    ['a member of another type', { ...sampleReport(), media: 'sdb1' }],
  ])('is none when it is %s', (_what, document) => {
    expect(parseReport(document)).toBeUndefined();
  });

  it('has at most 1,000 entries in a list', () => {
    const media = Array.from({ length: 1_500 }, (_, at) => ({
      medium: `sd${at}`,
      kind: 'stick' as const,
      state: 'read',
      bundles: 0,
    }));
    expect(overTheBus(idleReport({ media }))?.media).toHaveLength(1_000);
  });
});

import { expect, it } from 'vitest';
import { introspectBundle, introspectManager } from '../../../src/api/introspection.ts';
import { objectsOf } from '../../../src/api/properties/objects.ts';
import { encodeManagedObjects, encodeProperties, managerTable } from '../../../src/api/properties/properties.ts';
import type { StatusReport } from '../../../src/domain/report/status-schema.ts';
import { idleReport, sampleReport } from '../../support/bus/fake-backend.ts';

it('introspection is what it was', async () => {
  await expect(introspectManager()).toMatchFileSnapshot('golden/manager.xml');
  await expect(introspectBundle()).toMatchFileSnapshot('golden/bundle.xml');
});

it.each<[string, StatusReport | undefined]>([
  ['starting', undefined],
  ['idle', idleReport()],
  ['sample', sampleReport()],
])('the values of all properties are what they were: %s', async (name, report) => {
  const objects = objectsOf(report);
  const { Version: _, ...manager } = encodeProperties(managerTable, objects.manager);
  const values = { manager, bundles: encodeManagedObjects(objects) };
  const text = JSON.stringify(values, (_key, value) => (typeof value === 'bigint' ? `${value}n` : value), 2);
  await expect(`${text}\n`).toMatchFileSnapshot(`golden/${name}.json`);
});

import { BUNDLES_PATH, MANAGER, OBJECT_PATH, SERVICE } from '../../../src/api/contract.ts';
import { reportOfObjects } from '../../../src/api/properties/objects.ts';
import { decodeObjects } from '../../../src/api/properties/properties.ts';
import type { StatusReport } from '../../../src/domain/report/status-schema.ts';
import { variant } from '../../../src/host/bus/message-bus.ts';

/** The arguments of `busctl` for the two calls that the report is made from. */
export const REPORT_CALLS = [
  ['--json=short', 'call', SERVICE, OBJECT_PATH, 'org.freedesktop.DBus.Properties', 'GetAll', 's', MANAGER],
  ['--json=short', 'call', SERVICE, OBJECT_PATH, 'org.freedesktop.DBus.ObjectManager', 'GetManagedObjects'],
] as const;

/**
 * The report behind what `busctl` printed for {@link REPORT_CALLS}.
 *
 * @throws Error while the daemon starts, and when a bundle came or went between the two calls
 */
export function reportOfBusctl(manager: string, managed: string): StatusReport {
  const objects = decodeObjects(answerIn(manager), answerIn(managed));
  if (!objects.manager.started) throw new Error('the daemon is still starting');
  const report = reportOfObjects(objects);
  if (report === undefined) throw new Error(`what is below ${BUNDLES_PATH} changed meanwhile`);
  return report;
}

/** The one value of an answer: `{"type": "a{sv}", "data": [{…}]}`. */
function answerIn(printed: string): unknown {
  const { data } = JSON.parse(printed) as { readonly data: readonly unknown[] };
  return withVariants(data[0]);
}

/** busctl prints a variant as an object with `type` and `data`. */
function withVariants(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withVariants);
  if (typeof value !== 'object' || value === null) return value;
  const members = new Map<string, unknown>(Object.entries(value));
  const type = members.get('type');
  if (typeof type === 'string' && members.has('data')) return variant(type, withVariants(members.get('data')));
  return Object.fromEntries([...members].map(([name, member]) => [name, withVariants(member)]));
}

import * as v from 'valibot';
import { bundleReport, type StatusReport, statusReport } from '../../src/domain/report/status-schema.ts';
import type { SchemaParts } from '../../src/platform/schema.ts';

/** Names of the D-Bus API, as in docs/dbus.md. */
export const SERVICE = 'io.stickpin1';
export const MANAGER_PATH = '/io/stickpin1';
export const MANAGER = 'io.stickpin1.Manager';
export const BUNDLE = 'io.stickpin1.Bundle';

/** Properties as cockpit.js gives them: variants are `{ t, v }`. */
export type BusValues = Readonly<Record<string, unknown>>;

/** More entries of a list are dropped. */
const MAX_ENTRIES = 1_000;

/**
 * The report behind the properties of the manager and those of all bundles, by object path.
 * Undefined when they do not fit the schema, as those of another version may.
 */
export function reportOf(manager: BusValues, bundles: ReadonlyMap<string, BusValues>): StatusReport | undefined {
  const { bundles: _, ...entries } = statusReport.entries;
  const members = Object.entries(entries).flatMap(([key, schema]) =>
    member(key, schema, manager, key === 'progress' ? 'Transfer' : busNameOf(key)),
  );
  const paths = plain(manager.Bundles);
  const shown = (Array.isArray(paths) ? paths.slice(0, MAX_ENTRIES) : []).flatMap((path) => {
    const values = bundles.get(String(path));
    return values === undefined ? [] : [bundleOf(values)];
  });
  return parseReport({ ...Object.fromEntries(members), bundles: shown });
}

/** As {@link reportOf}, of a document as in `status.json`. */
export function parseReport(document: unknown): StatusReport | undefined {
  const result = v.safeParse(statusReport, document);
  return result.success ? result.output : undefined;
}

/** Values without variants around them, at any depth. */
export function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.slice(0, MAX_ENTRIES).map(plain);
  if (typeof value !== 'object' || value === null) return value;
  if ('t' in value && 'v' in value) return plain(value.v);
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, plain(one)]));
}

function bundleOf(values: BusValues): object {
  const members = Object.entries(bundleReport.entries).flatMap(([key, schema]) =>
    member(key, schema, values, key === 'bundleId' ? 'Id' : busNameOf(key)),
  );
  return Object.fromEntries(members);
}

function member(key: string, schema: v.GenericSchema, values: BusValues, name: string): readonly [string, unknown][] {
  return Object.hasOwn(values, name) ? [[key, shaped(schema, plain(values[name]))]] : [];
}

/** Structs, which are lists on D-Bus, become objects. */
function shaped(schema: v.GenericSchema, value: unknown): unknown {
  const { type, entries, item, wrapped } = schema as v.GenericSchema & SchemaParts;
  if (type === 'exact_optional') return shaped(wrapped, value);
  if (type === 'array') return Array.isArray(value) ? value.map((one) => shaped(item, one)) : value;
  if (type !== 'object' || typeof value !== 'object' || value === null) return value;
  const fields = Object.entries(entries);
  if (Array.isArray(value))
    return Object.fromEntries(fields.map(([key, field], at) => [key, shaped(field, value[at])]));
  const known = new Map(Object.entries(value));
  return Object.fromEntries(
    fields.flatMap(([key, field]) => (known.has(key) ? [[key, shaped(field, known.get(key))]] : [])),
  );
}

function busNameOf(key: string): string {
  return `${key.charAt(0).toUpperCase()}${key.slice(1)}`;
}

import { busNameOf } from '../bus-name.ts';
import { BUNDLE, MANAGER } from '../contract.ts';
import { decodeFields, encodeFields, fieldsOf, type WireType } from '../wire-types.ts';
import { BUNDLE_PROPERTIES, type BundleValues } from './bundle-properties.ts';
import { ANNOUNCEMENTS, MANAGER_PROPERTIES, type ManagerValues } from './manager-properties.ts';
import type { ApiObjects } from './objects.ts';

/** An interface with properties, as a table for answers, announcements and introspection. */
export interface PropertyTable {
  readonly interface: string;
  /** By their keys in the contract. */
  readonly fields: readonly (readonly [string, WireType<unknown>])[];
  /** How changes are announced, by key; see {@link ANNOUNCEMENTS}. */
  readonly announcements: ReadonlyMap<string, 'const' | 'invalidates'>;
}

/** The properties of the manager. */
export const managerTable: PropertyTable = {
  interface: MANAGER,
  fields: fieldsOf(MANAGER_PROPERTIES),
  announcements: new Map(Object.entries(ANNOUNCEMENTS)),
};

/** The properties of a bundle. */
export const bundleTable: PropertyTable = {
  interface: BUNDLE,
  fields: fieldsOf(BUNDLE_PROPERTIES),
  announcements: new Map(),
};

/** The properties of an object as `a{sv}`. */
export function encodeProperties(table: PropertyTable, values: object): Record<string, unknown> {
  return encodeFields(table.fields, values, busNameOf);
}

/** All bundles as `a{oa{sa{sv}}}`, the answer of `GetManagedObjects`. */
export function encodeManagedObjects({ bundles }: ApiObjects): Record<string, unknown> {
  const entries = [...bundles].map(([path, values]) => [path, { [BUNDLE]: encodeProperties(bundleTable, values) }]);
  return Object.fromEntries(entries);
}

/**
 * Decodes the answers of `GetAll` and `GetManagedObjects`. @throws AppError `api/unreadable`
 * (`reject`)
 */
export function decodeObjects(manager: unknown, managed: unknown): ApiObjects {
  const bundles = Object.entries(asTable(managed)).map(([path, interfaces]) => {
    const properties = asTable(interfaces)[BUNDLE];
    return [path, decodeFields<BundleValues>(bundleTable.fields, properties, busNameOf)] as const;
  });
  return {
    manager: decodeFields<ManagerValues>(managerTable.fields, manager, busNameOf),
    bundles: new Map(bundles),
  };
}

function asTable(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}

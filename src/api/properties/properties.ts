import * as v from 'valibot';
import { type BundleReport, bundleReport, type StatusReport, statusReport } from '../../domain/report/status-schema.ts';
import type { Parsed } from '../../platform/schema.ts';
import { BUNDLE, busNameOf, MANAGER } from '../contract.ts';
import {
  decodeFields,
  encodeFields,
  fieldsOf,
  flag,
  list,
  objectPath,
  text,
  type WireType,
  wireTypeOf,
  wireTypesOf,
} from '../wire-types.ts';

/** The properties of a bundle, all for reading: {@link BundleReport} with its digest as `id`. */
export interface BundleValues extends Omit<BundleReport, 'bundleId'> {
  readonly id: string;
}

const integer = v.pipe(v.number(), v.integer(), v.metadata({ dbus: 'i' }));

/** How far the present operation is, as in RAUC. `percentage`: 0 to 100. */
const operationProgress = v.pipe(
  v.object({ percentage: integer, message: v.string(), depth: integer }),
  v.metadata({ dbus: 'struct' }),
  v.description('Percentage, message and nesting depth, as in RAUC.'),
);

/**
 * The properties of the daemon, all for reading. The document of `stickpin status --json` is made
 * from them.
 */
export interface ManagerValues extends Omit<StatusReport, 'bundles' | 'progress'> {
  readonly started: boolean;
  readonly version: string;
  readonly progress: Parsed<typeof operationProgress>;
  /** It is empty when there is none. */
  readonly lastError: string;
  readonly transfer: StatusReport['progress'];
  /** Paths of the bundles' objects, in the order in which they are shown. */
  readonly bundles: readonly string[];
}

const { bundleId: id, ...bundleTypes } = wireTypesOf(bundleReport.entries);
const { progress: transfer, bundles: _, ...statusTypes } = wireTypesOf(statusReport.entries);
const {
  status,
  operation,
  runtime,
  media,
  notices,
  rejected,
  rejectedNames,
  conditions,
  unclaimed,
  windows,
  ...others
} = statusTypes;

const about = <T>(type: WireType<T>, sentence: string): WireType<T> => ({ ...type, about: sentence });

/** The order is that of introspection. */
const MANAGER_PROPERTIES: Readonly<Record<keyof ManagerValues, WireType<unknown>>> = {
  started: about(
    flag,
    'False until the daemon has looked at the node once. Until then the other properties say nothing.',
  ),
  version: about(text, 'The version of the daemon.'),
  status,
  operation,
  progress: wireTypeOf(operationProgress),
  lastError: about(text, 'The last error that still matters, or empty.'),
  transfer,
  bundles: about(list(objectPath), 'The objects of all bundles, in the order in which `stickpin list` shows them.'),
  runtime,
  media,
  notices,
  rejected,
  rejectedNames,
  conditions,
  unclaimed,
  windows,
  ...others,
};

/** Properties of unlimited length: a change is announced by name, and clients read the value. */
const LONG: readonly (keyof ManagerValues)[] = [
  'notices',
  'rejected',
  'rejectedNames',
  'conditions',
  'unclaimed',
  'streams',
  'windows',
  'stateProblems',
  'hooks',
  'trust',
  'pauses',
];

/** An interface with properties, as a table for answers, announcements and introspection. */
export interface PropertyTable {
  readonly interface: string;
  /** The fields by their keys in the contract. */
  readonly fields: readonly (readonly [string, WireType<unknown>])[];
  /** How changes are announced (`EmitsChangedSignal`), by key; by default with the value. */
  readonly announcements: ReadonlyMap<string, 'const' | 'invalidates'>;
}

export const managerTable: PropertyTable = {
  interface: MANAGER,
  fields: fieldsOf(MANAGER_PROPERTIES),
  announcements: new Map([['version', 'const'], ...LONG.map((key) => [key, 'invalidates'] as const)]),
};

export const bundleTable: PropertyTable = {
  interface: BUNDLE,
  fields: fieldsOf({ id, ...bundleTypes }),
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

/** The values of all properties of all objects. */
export interface ApiObjects {
  readonly manager: ManagerValues;
  /** The bundles by the path of the object, in the order in which they are shown. */
  readonly bundles: ReadonlyMap<string, BundleValues>;
}

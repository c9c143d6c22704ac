import { type BundleReport, bundleReport, type StatusReport, statusReport } from '../../domain/report/status-schema.ts';
import { BUNDLE, busNameOf, MANAGER } from '../contract.ts';
import {
  decodeFields,
  encodeFields,
  fieldsOf,
  flag,
  integer,
  list,
  objectPath,
  struct,
  text,
  type WireType,
  wireTypesOf,
} from '../wire-types.ts';

/** The properties of a bundle, all for reading: {@link BundleReport} with its digest as `id`. */
export interface BundleValues extends Omit<BundleReport, 'bundleId'> {
  readonly id: string;
}

/** How far the present operation is, as in RAUC. */
interface OperationProgress {
  /** 0 to 100. */
  readonly percentage: number;
  readonly message: string;
  /** 0: there are no steps within steps. */
  readonly depth: number;
}

/**
 * The properties of the daemon, all for reading. The document of `stickpin status --json` is made
 * from them.
 */
export interface ManagerValues extends Omit<StatusReport, 'bundles' | 'progress'> {
  readonly started: boolean;
  readonly version: string;
  readonly progress: OperationProgress;
  /** Empty when there is none. */
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

/** In the order in which introspection shows them. */
const MANAGER_PROPERTIES: Readonly<Record<keyof ManagerValues, WireType<unknown>>> = {
  started: about(
    flag,
    'False until the daemon has looked at the node once. Until then the other properties say nothing.',
  ),
  version: about(text, 'The version of the daemon.'),
  status,
  operation,
  progress: about(
    struct<OperationProgress>({ percentage: integer, message: text, depth: integer }),
    'Percentage, message and nesting depth, as in RAUC.',
  ),
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

/**
 * Changes that are announced by name, and the value is left to be read, since nothing bounds its
 * length (`EmitsChangedSignal`); of a property that is not listed, with its value.
 */
const ANNOUNCEMENTS: Readonly<Partial<Record<keyof ManagerValues, 'const' | 'invalidates'>>> = {
  version: 'const',
  notices: 'invalidates',
  rejected: 'invalidates',
  rejectedNames: 'invalidates',
  conditions: 'invalidates',
  unclaimed: 'invalidates',
  streams: 'invalidates',
  windows: 'invalidates',
  stateProblems: 'invalidates',
  hooks: 'invalidates',
  trust: 'invalidates',
};

/** An interface with properties, as a table for answers, announcements and introspection. */
export interface PropertyTable {
  readonly interface: string;
  /** By their keys in the contract. */
  readonly fields: readonly (readonly [string, WireType<unknown>])[];
  /** How changes are announced, by key; see {@link ANNOUNCEMENTS}. */
  readonly announcements: ReadonlyMap<string, 'const' | 'invalidates'>;
}

export const managerTable: PropertyTable = {
  interface: MANAGER,
  fields: fieldsOf(MANAGER_PROPERTIES),
  announcements: new Map(Object.entries(ANNOUNCEMENTS)),
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
  /** By the path of the object, in the order in which they are shown. */
  readonly bundles: ReadonlyMap<string, BundleValues>;
}

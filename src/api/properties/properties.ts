import { NODE_CONDITION_TYPES } from '../../domain/model/condition.ts';
import type { ActivationHoldReport, BundleReport } from '../../domain/report/parts/bundle-report.ts';
import type { StatusReport } from '../../domain/report/report.ts';
import { BUNDLE, busNameOf, MANAGER } from '../contract.ts';
import {
  count,
  decodeFields,
  dictionary,
  encodeFields,
  type FieldTypes,
  fieldsOf,
  flag,
  integer,
  large,
  list,
  objectPath,
  oneOf,
  optional,
  set,
  struct,
  text,
  type WireType,
} from '../wire-types.ts';

/** An error code and a full sentence. */
const reason = dictionary<{ readonly code: string; readonly message: string }>({ code: text, message: text });

/**
 * The properties of the interface of a bundle, all for reading: {@link BundleReport} with its
 * digest as `id`.
 */
export interface BundleValues extends Omit<BundleReport, 'bundleId'> {
  readonly id: string;
}

/** Types of the properties of the interface of a bundle. */
export const BUNDLE_PROPERTIES: FieldTypes<BundleValues> = {
  id: text,
  name: text,
  version: text,
  sequence: large,
  phase: text,
  hold: optional(text),
  reason: optional(reason),
  degraded: optional(reason),
  conditions: optional(
    list(
      struct<NonNullable<BundleReport['conditions']>[number]>({
        type: oneOf('Verified', 'SpaceAvailable', 'Preloaded', 'Pinned', 'Active', 'Proven', 'Degraded'),
        status: oneOf('True', 'False', 'Unknown'),
        reason: text,
        message: text,
        lastTransitionTime: text,
      }),
    ),
  ),
  signedBy: list(text),
  signerKeyIds: optional(list(text)),
  media: list(text),
  sources: optional(list(text)),
  images: dictionary<BundleReport['images']>({ total: count, present: count, pinned: count }),
  sizeBytes: large,
  adoptedAt: optional(text),
  readyAt: optional(text),
  activatedAt: optional(text),
  soakEndsAt: optional(text),
  cancelled: optional(dictionary<NonNullable<BundleReport['cancelled']>>({ at: text, media: list(text) })),
  activationHolds: optional(
    list(
      dictionary<ActivationHoldReport>({
        gate: text,
        code: text,
        message: text,
        releasedBy: oneOf('person', 'time', 'event'),
        until: optional(text),
      }),
    ),
  ),
  rules: optional(
    list(
      struct<NonNullable<BundleReport['rules']>[number]>({
        rule: oneOf('from', 'rollout', 'endOfLife', 'barrier', 'deadend'),
        value: text,
        effect: oneOf('holds-activation', 'holds-others'),
      }),
    ),
  ),
  warnings: optional(list(text)),
  current: optional(flag),
  runs: optional(flag),
  kept: optional(text),
  advisory: optional(
    dictionary<NonNullable<BundleReport['advisory']>>({
      version: text,
      deadend: optional(flag),
      barrier: optional(flag),
      reason: text,
      from: text,
      effect: oneOf('holds-activation', 'holds-others'),
    }),
  ),
};

/** How far the present operation is, as in RAUC: percentage, message, nesting depth. */
interface OperationProgress {
  /** 0 to 100. */
  readonly percentage: number;
  readonly message: string;
  /** 0: there are no steps within steps. */
  readonly depth: number;
}

/**
 * The properties of the daemon's interface, all for reading. The document of `stickpin status
 * --json` is made from them.
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

const reportedKey = dictionary<StatusReport['trust']['keys'][number]>({
  name: text,
  keyId: text,
  broughtBy: optional(text),
});

/** Types of the properties of the daemon's interface. */
export const MANAGER_PROPERTIES: FieldTypes<ManagerValues> = {
  started: flag,
  version: text,
  status: text,
  operation: oneOf('idle', 'verifying', 'preloading', 'activating'),
  progress: struct<OperationProgress>({ percentage: integer, message: text, depth: integer }),
  lastError: text,
  transfer: dictionary<StatusReport['progress']>({
    doneBytes: large,
    totalBytes: large,
    bytesPerSecond: optional(large),
    isUnpacking: optional(set),
    images: optional(list(text)),
  }),
  bundles: list(objectPath),
  runtime: dictionary<StatusReport['runtime']>({ reachable: flag, name: optional(text), reason: optional(text) }),
  media: list(
    dictionary<StatusReport['media'][number]>({ medium: text, state: text, bundles: count, reason: optional(reason) }),
  ),
  notices: list(
    dictionary<StatusReport['notices'][number]>({
      bundleId: text,
      name: text,
      version: text,
      sequence: large,
      signedBy: list(text),
      signerKeyIds: optional(list(text)),
      adoptedAt: text,
      advisories: list(
        dictionary<StatusReport['notices'][number]['advisories'][number]>({
          version: text,
          deadend: optional(flag),
          barrier: optional(flag),
          reason: text,
        }),
      ),
      reason: optional(reason),
    }),
  ),
  rejected: list(
    dictionary<StatusReport['rejected'][number]>({
      medium: text,
      path: text,
      reason,
      name: optional(text),
      bundleId: optional(text),
    }),
  ),
  rejectedNames: list(
    dictionary<StatusReport['rejectedNames'][number]>({ name: text, version: text, since: text, reason }),
  ),
  conditions: list(
    struct<StatusReport['conditions'][number]>({
      type: oneOf(...NODE_CONDITION_TYPES),
      status: oneOf('True', 'False', 'Unknown'),
      reason: text,
      message: text,
      lastTransitionTime: text,
    }),
  ),
  unclaimed: list(
    dictionary<StatusReport['unclaimed'][number]>({
      bundleId: optional(text),
      name: optional(text),
      version: optional(text),
      references: list(text),
    }),
  ),
  windows: list(
    dictionary<StatusReport['windows'][number]>({
      opensAt: optional(text),
      closesAt: optional(text),
      text,
    }),
  ),
  streams: list(
    dictionary<StatusReport['streams'][number]>({
      name: text,
      scheme: optional(oneOf('semver', 'three-tag')),
      current: optional(
        dictionary<NonNullable<StatusReport['streams'][number]['current']>>({
          version: text,
          source: oneOf('activated', 'running', 'setting'),
        }),
      ),
      next: optional(text),
      notes: list(text),
      releases: list(
        dictionary<StatusReport['streams'][number]['releases'][number]>({
          version: text,
          sequence: optional(large),
          phase: text,
          from: list(text),
          barrier: optional(text),
          deadend: optional(text),
        }),
      ),
    }),
  ),
  stateProblems: list(reason),
  hooks: list(
    dictionary<StatusReport['hooks'][number]>({
      hook: text,
      unit: text,
      state: oneOf('running', 'retrying', 'failed'),
      bundle: text,
      at: text,
      message: optional(text),
    }),
  ),
  trust: dictionary<StatusReport['trust']>({
    require: text,
    threshold: count,
    keys: list(reportedKey),
    roles: optional(
      list(
        dictionary<NonNullable<StatusReport['trust']['roles']>[number]>({
          name: text,
          threshold: count,
          streams: list(text),
          repositories: list(text),
          mayRotate: flag,
          keys: list(reportedKey),
        }),
      ),
    ),
    revoked: list(
      dictionary<StatusReport['trust']['revoked'][number]>({
        keyId: text,
        file: optional(text),
        byPerson: optional(set),
        revokedBy: optional(text),
        role: optional(text),
      }),
    ),
    problems: list(text),
    revocationsUnreadable: flag,
    cause: optional(text),
  }),
  wanted: list(struct<StatusReport['wanted'][number]>({ name: text, version: text, nodes: list(text), message: text })),
  protected: list(struct<StatusReport['protected'][number]>({ name: text, version: text, ownBytes: large })),
};

/**
 * How a change of a property is announced (`EmitsChangedSignal`); of one that is not listed, with
 * its value.
 */
const ANNOUNCEMENTS: Readonly<Partial<Record<keyof ManagerValues, 'const' | 'invalidates'>>> = {
  version: 'const',
  // Nothing bounds the length of these, so that a change is announced by name and the value is left
  // to be read.
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

/** The values of all properties of all objects. */
export interface ApiObjects {
  readonly manager: ManagerValues;
  /** By the path of the object, in the order in which they are shown. */
  readonly bundles: ReadonlyMap<string, BundleValues>;
}

/**
 * The D-Bus API of the daemon as data. The client, the service, what introspection shows, the type
 * of the back end, and the tables of docs/dbus.md follow from it.
 *
 * Keys are camelCase; on the bus each has a capital first letter (`getHistory` is `GetHistory`).
 */
import type { ActivationHoldReport, BundleReport, StatusReport } from '../domain/report/report.ts';
import type { EventRow } from '../ports/state.ts';
import type { Action } from './actions.ts';
import {
  count,
  dictionary,
  type Fields,
  type FieldTypes,
  flag,
  integer,
  large,
  lines,
  list,
  objectPath,
  oneOf,
  optional,
  set,
  struct,
  text,
  type WireType,
} from './wire-types.ts';

/** Where the daemon answers on the system bus. */
export const SERVICE = 'io.stickpin1';

/** The object with the interface {@link MANAGER}; those of bundles are below it. */
export const OBJECT_PATH = '/io/stickpin1';

/** The interface of the daemon as a whole. */
export const MANAGER = 'io.stickpin1.Manager';

/** The interface of each bundle. */
export const BUNDLE = 'io.stickpin1.Bundle';

/** Below it is an object for each bundle, named by the 64 hex digits of the bundle's digest. */
export const BUNDLES_PATH = `${OBJECT_PATH}/bundle`;

/**
 * Who may call a method: anybody, or root and those to whom polkit allows the action. The service
 * enforces it.
 */
export type Access = 'anybody' | Action;

/** One method. */
export interface MethodContract {
  /** What it does, in one sentence. */
  readonly about: string;
  /** In the order of the signature. */
  readonly args: Fields;
  /** At most one member; its key is the name of the result. */
  readonly result: Readonly<Record<string, WireType<unknown>>>;
  readonly access: Access;
  /**
   * It is answered when the work is done, however long that takes. Others are answered within
   * seconds.
   */
  readonly isLong?: boolean;
}

/** The methods of {@link MANAGER}. */
export const METHODS = {
  getHistory: {
    about: 'Returns the newest 1,000 events, oldest first; of all bundles when `bundle` is empty.',
    args: { bundle: text },
    result: {
      events: list(
        dictionary<Omit<EventRow, 'bundleId'> & { readonly bundleId?: string }>({
          at: large,
          kind: text,
          message: text,
          bundleId: optional(text),
          medium: optional(text),
        }),
      ),
    },
    access: 'anybody',
  },
  activate: {
    about: 'Activates a bundle, unless rules of the release hold its activation (`Engine.ActivationHeld`).',
    args: { bundle: text },
    result: {},
    access: 'activate',
    isLong: true,
  },
  activateOverride: {
    about: 'Activates a bundle even if rules of the release hold its activation.',
    args: { bundle: text },
    result: {},
    access: 'activate',
    isLong: true,
  },
  rollback: {
    about: 'Activates the fallback of a stream, or of the only one when `stream` is empty.',
    args: { stream: text },
    result: { bundle: text },
    access: 'activate',
    isLong: true,
  },
  unpin: {
    about: 'Gives up a release. Without `force` it fails with `Engine.Running` while the release may be in use.',
    args: { bundle: text, removeImages: flag, force: flag },
    result: {},
    access: 'unpin',
    isLong: true,
  },
  unpinUnclaimed: {
    about: 'Gives up all pins that belong to no known release. Without `force` it fails with `Engine.Running`.',
    args: { force: flag },
    result: { consequence: lines },
    access: 'unpin',
    isLong: true,
  },
  cancel: {
    about: 'Stops every preload until its medium is plugged in again, or until `Rescan`.',
    args: {},
    result: {},
    access: 'load',
  },
  approve: {
    about: 'Approves a bundle, by its digest or by the name and version of one that is known.',
    args: { bundle: text },
    result: { consequence: lines },
    access: 'approve',
  },
  reject: {
    about: 'Rejects a bundle, by its digest or by the name and version of one that is known.',
    args: { bundle: text },
    result: { consequence: lines },
    access: 'reject',
  },
  prove: {
    about:
      'Makes the current release of a stream a proven one, by the word of the caller. Fails with `Engine.NotProvable` for any other.',
    args: { bundle: text },
    result: { consequence: lines },
    access: 'activate',
  },
  restoreKey: {
    about: 'Lifts the stored revocation of a key.',
    args: { keyId: text },
    result: { consequence: lines },
    access: 'trust',
  },
  rescan: {
    about: 'Looks at all media and the runtime again, and resumes cancelled preloads.',
    args: {},
    result: {},
    access: 'load',
  },
  load: {
    about: 'Takes the medium at an absolute path, which is not detected automatically.',
    args: { path: text },
    result: { medium: text },
    access: 'load',
    isLong: true,
  },
} as const satisfies Readonly<Record<string, MethodContract>>;

/** An error code and a full sentence. */
const reason = dictionary<{ readonly code: string; readonly message: string }>({ code: text, message: text });

/** How far the present operation is, as in RAUC: percentage, message, nesting depth. */
export interface OperationProgress {
  /** 0 to 100. */
  readonly percentage: number;
  readonly message: string;
  /** 0: there are no steps within steps. */
  readonly depth: number;
}

/**
 * The properties of {@link MANAGER}, all for reading. The document of `stickpin status --json` is
 * made from them.
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

/** Types of the properties of {@link MANAGER}. */
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
  unclaimed: list(
    dictionary<StatusReport['unclaimed'][number]>({
      bundleId: optional(text),
      name: optional(text),
      version: optional(text),
      references: list(text),
    }),
  ),
  stateProblems: list(reason),
  trust: dictionary<StatusReport['trust']>({
    require: text,
    threshold: count,
    keys: list(
      dictionary<StatusReport['trust']['keys'][number]>({ name: text, keyId: text, broughtBy: optional(text) }),
    ),
    revoked: list(
      dictionary<StatusReport['trust']['revoked'][number]>({
        keyId: text,
        file: optional(text),
        revokedBy: optional(text),
      }),
    ),
    problems: list(text),
    revocationsUnreadable: flag,
    cause: optional(text),
  }),
  protected: list(struct<StatusReport['protected'][number]>({ name: text, version: text, ownBytes: large })),
};

/**
 * How a change of a property is announced (`EmitsChangedSignal`); of one that is not listed, with
 * its value.
 */
export const ANNOUNCEMENTS: Readonly<Partial<Record<keyof ManagerValues, 'const' | 'invalidates'>>> = {
  version: 'const',
  // Nothing bounds the length of these, so that a change is announced by name and the value is left
  // to be read.
  notices: 'invalidates',
  rejected: 'invalidates',
  unclaimed: 'invalidates',
  stateProblems: 'invalidates',
  trust: 'invalidates',
};

/**
 * The properties of {@link BUNDLE}, all for reading: {@link BundleReport} with its digest as `id`.
 */
export interface BundleValues extends Omit<BundleReport, 'bundleId'> {
  readonly id: string;
}

/** Types of the properties of {@link BUNDLE}. */
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

/** The signals of {@link MANAGER}. */
export const SIGNALS = {
  completed: {
    about: 'An operation ended. `result` is 0 when `LastError` is empty then, and 1 otherwise, as in RAUC.',
    args: { result: integer },
  },
} as const;

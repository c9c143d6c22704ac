import { NODE_CONDITION_TYPES } from '../../domain/model/condition.ts';
import type { StatusReport } from '../../domain/report/report.ts';
import {
  count,
  dictionary,
  type FieldTypes,
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
} from '../wire-types.ts';
import { reason } from './bundle-properties.ts';

/** How far the present operation is, as in RAUC: percentage, message, nesting depth. */
export interface OperationProgress {
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
export const ANNOUNCEMENTS: Readonly<Partial<Record<keyof ManagerValues, 'const' | 'invalidates'>>> = {
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

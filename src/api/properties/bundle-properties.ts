import type { ActivationHoldReport, BundleReport } from '../../domain/report/parts/bundle-report.ts';
import { count, dictionary, type FieldTypes, flag, large, list, oneOf, optional, struct, text } from '../wire-types.ts';

/** An error code and a full sentence. */
export const reason = dictionary<{ readonly code: string; readonly message: string }>({ code: text, message: text });

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

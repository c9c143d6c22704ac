import * as v from 'valibot';
import { type BundleId, isDigest } from '../../domain/model/digest.ts';
import { PHASES } from '../../domain/model/phase.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { oneLine } from '../../platform/plain-text.ts';
import { schemaFault } from '../../platform/schema-fault.ts';

const shownReason = v.object({ code: v.string(), message: v.string() });
const count = v.pipe(v.number(), v.minValue(0));

const condition = v.object({ type: v.string(), status: v.string(), reason: v.string(), message: v.string() });

const bundle = v.object({
  bundleId: v.custom<BundleId>((value) => typeof value === 'string' && isDigest(value), 'must be a digest'),
  name: v.string(),
  version: v.string(),
  sequence: v.number(),
  phase: v.picklist(PHASES.map(({ phase }) => phase)),
  hold: v.optional(v.string()),
  reason: v.optional(shownReason),
  degraded: v.optional(shownReason),
  activationHolds: v.optional(v.array(v.object({ code: v.string(), releasedBy: v.string() })), []),
  conditions: v.optional(v.array(condition), []),
  signedBy: v.array(v.string()),
  media: v.array(v.string()),
  images: v.object({ total: count, present: count, pinned: count }),
  sizeBytes: count,
  adoptedAt: v.optional(v.string()),
  activatedAt: v.optional(v.string()),
  current: v.optional(v.boolean()),
  runs: v.optional(v.boolean()),
});

const rejection = v.object({
  medium: v.string(),
  path: v.string(),
  bundleId: v.optional(v.string()),
  reason: shownReason,
});

const ownReport = v.object({
  arch: v.optional(v.string()),
  runtime: v.object({ reachable: v.boolean(), name: v.optional(v.string()), reason: v.optional(v.string()) }),
  bundles: v.array(bundle),
  rejected: v.array(rejection),
  stateProblems: v.array(shownReason),
  wanted: v.optional(v.array(v.object({ name: v.string(), version: v.string(), message: v.string() })), []),
  progress: v.object({ doneBytes: count, totalBytes: count }),
});

/** What the fleet process reads of `status.json`: the parts that it tells others. */
export type OwnReport = v.InferOutput<typeof ownReport>;

/** One bundle in it. */
export type OwnBundle = OwnReport['bundles'][number];

/** A report, or why a text is none. */
export type ParsedReport =
  | { readonly kind: 'report'; readonly report: OwnReport }
  | { readonly kind: 'foreign'; readonly why: string };

/** Reads the text of `status.json`. Unknown members are ignored. */
export function parseOwnReport(text: string): ParsedReport {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch (error) {
    return { kind: 'foreign', why: oneLine(reasonOf(error)) };
  }
  const result = v.safeParse(ownReport, document);
  if (result.success) return { kind: 'report', report: result.output };
  const [issue] = result.issues;
  return { kind: 'foreign', why: `${v.getDotPath(issue) ?? 'the document'}: ${oneLine(schemaFault(issue))}` };
}

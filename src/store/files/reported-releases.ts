import { stat } from 'node:fs/promises';
import * as v from 'valibot';
import { type BundleId, isDigest } from '../../domain/model/digest.ts';
import type { ReportedRelease } from '../../domain/release/rebuild.ts';
import { readIfPresent } from '../../platform/files/durable-file.ts';

/** A status document of a node with 2,000 images is smaller by far. */
const MAX_BYTES = 16 * 1024 * 1024;

const text = v.exactOptional(v.string());
const schema = v.object({
  bundles: v.pipe(
    v.array(
      v.object({
        bundleId: v.custom<BundleId>((value) => typeof value === 'string' && isDigest(value)),
        phase: v.string(),
        adoptedAt: text,
        readyAt: text,
        activatedAt: text,
        cancelled: v.exactOptional(v.object({ at: v.string(), media: v.array(v.string()) })),
        conditions: v.exactOptional(
          v.array(
            v.object({ type: v.string(), status: v.string(), reason: v.string(), lastTransitionTime: v.string() }),
          ),
        ),
      }),
    ),
    v.maxLength(1_000),
  ),
});

/**
 * The releases in the status document at `path`, as an earlier daemon wrote it. None when it is
 * absent, damaged, or can't be read: it is only one of several records of them.
 */
export async function readReportedReleases(path: string): Promise<readonly ReportedRelease[]> {
  try {
    if ((await stat(path)).size > MAX_BYTES) return [];
    const parsed = v.safeParse(schema, JSON.parse((await readIfPresent(path)) ?? ''));
    return parsed.success ? parsed.output.bundles : [];
  } catch {
    return [];
  }
}

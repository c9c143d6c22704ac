import { refuseAdoption } from '../../domain/adoption/adoption.ts';
import { KnownBundles } from '../../domain/adoption/floors.ts';
import { bundleName, type VerifiedBundle } from '../../domain/model/bundle.ts';
import type { FoundBundle } from '../../domain/model/medium.ts';
import type { Fault } from '../../domain/model/reason.ts';
import { reasonText } from '../../domain/report/reasons/reason-text.ts';
import type { StoredBundle } from '../../domain/state/state.ts';
import { isRelease } from '../../domain/trust/trust-in-force.ts';
import { AppError } from '../../platform/app-error.ts';
import { quotedPath } from '../../platform/plain-text.ts';
import type { Documents } from '../documents/worker-documents.ts';
import type { Trust } from '../keys/trust.ts';
import type { BundleReader } from '../read/bundle-reader.ts';
import { judgeBundle, readEnvelope } from './judge-bundle.ts';
import { bundleIdOf } from './verify-envelope.ts';
import { findMissing } from './walk-images.ts';

/** A bundle with its reader, or something like a bundle that can't be read. */
export type BundleToJudge =
  | { readonly kind: 'bundle'; readonly path: string; readonly reader: BundleReader }
  | { readonly kind: 'unreadable'; readonly path: string; readonly reason: Fault };

/**
 * Returns one result for each, in order. A bundle that is not trusted, malformed or unreadable is
 * `rejected`, or `unapproved` where an approval is enough. It does not hide the others.
 * @throws AppError `media/gone` (`wait`)
 */
export async function judgeBundles(
  bundles: readonly BundleToJudge[],
  options: {
    readonly trust: Trust;
    readonly documents?: Documents;
    /**
     * Recent results of the same keys, where a path names the digest of its bundle: of those with
     * all documents only the blobs are checked again. Default none.
     */
    readonly known?: readonly FoundBundle[];
  },
  signal: AbortSignal,
): Promise<FoundBundle[]> {
  const { known = [], ...trusted } = options;
  const judged: FoundBundle[] = [];
  for (const one of bundles) {
    const { path } = one;
    if (one.kind === 'unreadable') {
      judged.push({ kind: 'rejected', path, reason: one.reason });
      continue;
    }
    const before = known.find((found) => found.path === path);
    judged.push(
      before !== undefined && hasAllDocuments(before)
        ? { ...before, missing: await findMissing(one.reader, before.bundle, signal) }
        : await judgeOne(one.reader, path, trusted, signal),
    );
  }
  return judged;
}

function hasAllDocuments(found: FoundBundle): found is Extract<FoundBundle, { kind: 'verified' }> {
  if (found.kind !== 'verified') return false;
  const documents = new Set(found.documents);
  return !found.missing.some(({ digest }) => documents.has(digest));
}

/** An approval replaces missing signatures. A wrong signature means a damaged or altered bundle. */
const MAY_BE_APPROVED: ReadonlySet<string> = new Set([
  'bundle/no-key',
  'bundle/revocations-unreadable',
  'bundle/unsigned',
  'bundle/unknown-key',
  'bundle/revoked-key',
  'bundle/threshold',
  'bundle/outside-role',
  'bundle/rotation',
]);

async function judgeOne(
  reader: BundleReader,
  path: string,
  { trust, documents: parsers }: { readonly trust: Trust; readonly documents?: Documents },
  signal: AbortSignal,
): Promise<FoundBundle> {
  try {
    const { bundle, documents, missing, isEnvelope } = await reader.hold(() =>
      judgeBundle(reader, trust, signal, parsers),
    );
    return { kind: 'verified', path, bundle, documents, missing, ...(isEnvelope && { isEnvelope }) };
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof AppError) || error.code === 'media/gone') throw error;
    if (trust.isApprovalEnough === true && MAY_BE_APPROVED.has(error.code)) {
      const { payload } = await readEnvelope(reader, signal);
      return { kind: 'unapproved', path, bundleId: bundleIdOf(payload) };
    }
    return { kind: 'rejected', path, reason: { code: error.code, message: error.message } };
  }
}

export interface BundleOnStick {
  readonly path: string;
  readonly bundle: VerifiedBundle;
}

/**
 * Why bundles of one stick can't be together on a node that knows none of them, by path.
 * @param found in the order in which a node finds them; nodes see only bundles of their
 * architecture
 */
export function refusedTogether(found: readonly BundleOnStick[], now: number): ReadonlyMap<string, string> {
  const refused = new Map<string, string>();
  const adopted: (BundleOnStick & { readonly bundle: StoredBundle })[] = [];
  for (const { path, bundle } of found) {
    const { arch, name } = bundle.payload;
    if (adopted.some((one) => one.bundle.bundleId === bundle.bundleId)) continue;
    const ofArch = adopted.filter((one) => one.bundle.payload.arch === arch);
    const known = new KnownBundles(ofArch.map((one) => one.bundle));
    const reason = refuseAdoption(bundle, { known, arch, now, clockSynchronised: true });
    const ofStream = isRelease(bundle)
      ? ofArch.filter((one) => one.bundle.payload.name === name && isRelease(one.bundle))
      : [];
    const why = reason === undefined ? unclear(bundle, ofStream) : reasonText(reason);
    if (why !== undefined) refused.set(path, why);
    if (reason === undefined) adopted.push({ path, bundle: { ...bundle, adoptedAt: now } });
  }
  return refused;
}

function unclear(bundle: VerifiedBundle, others: readonly BundleOnStick[]): string | undefined {
  const { version } = bundle.payload;
  const twin = others.find((one) => one.bundle.payload.version === version);
  if (twin !== undefined) {
    return `${bundleName(bundle.payload)} is in ${quotedPath(twin.path)} too, with other content: commands can't tell them apart by name; give one of them another version`;
  }
  const isNumber = (text: string) => /^[0-9]/.test(text);
  const other = others.find((one) => isNumber(one.bundle.payload.version) !== isNumber(version));
  if (other === undefined) return undefined;
  const [word, number] = isNumber(version)
    ? [other.bundle.payload.version, version]
    : [version, other.bundle.payload.version];
  return `${word} comes after every version that begins with a digit, so a node that has it takes no ${number}; write all versions of a stream in one way`;
}

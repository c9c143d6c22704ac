import { createHash } from 'node:crypto';
import { type Digest, digestFromHex } from '../../domain/model/digest.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { defined } from '../../platform/defined.ts';
import { oneBuffer } from '../../platform/files/file-access.ts';
import type { BlobCopy, BlobUnion } from '../../ports/blobs.ts';

export type BadBlob = BadCopy & {
  readonly digest: Digest;
  readonly at: string;
  readonly file?: string;
  /** Another copy, which is used from now on. */
  readonly instead: string | undefined;
};

type BadCopy =
  | { readonly kind: 'damaged'; readonly actual: Digest; readonly sizeBytes: number }
  | { readonly kind: 'unreadable'; readonly why: string };

/**
 * Finds the bad blob after the runtime refused an image. Each bad copy that was read is distrusted,
 * so that the next try uses another one.
 * @returns the first damaged blob without another copy, where reading stops; otherwise the first
 *   unreadable one without another copy, the first damaged one, the first unreadable one
 */
export async function findBadBlob(
  digests: readonly Digest[],
  source: Pick<BlobUnion, 'copiesOf'>,
  signal: AbortSignal,
): Promise<BadBlob | undefined> {
  const found: BadBlob[] = [];
  for (const digest of digests) {
    const bad = await checkBlob(digest, source, signal);
    if (bad !== undefined) found.push(bad);
    if (bad?.kind === 'damaged' && bad.instead === undefined) return bad;
  }
  return found.find(({ instead }) => instead === undefined) ?? found.find(({ kind }) => kind === 'damaged') ?? found[0];
}

async function checkBlob(
  digest: Digest,
  source: Pick<BlobUnion, 'copiesOf'>,
  signal: AbortSignal,
): Promise<BadBlob | undefined> {
  const [served] = await source.copiesOf(digest, signal);
  const bad = served && (await checkCopy(digest, served, signal));
  if (served === undefined || bad === undefined) return undefined;
  served.distrust(bad.kind);
  const [next] = await source.copiesOf(digest, signal);
  const { label: at, file } = served;
  return { ...bad, digest, at, ...defined({ file }), instead: next?.isTrusted === true ? next.label : undefined };
}

async function checkCopy(digest: Digest, copy: BlobCopy, signal: AbortSignal): Promise<BadCopy | undefined> {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  try {
    for await (const chunk of copy.read(0, signal, oneBuffer())) {
      hash.update(chunk);
      sizeBytes += chunk.length;
    }
  } catch (error) {
    signal.throwIfAborted();
    const isBad = error instanceof AppError && UNREADABLE.has(error.code);
    return isBad ? { kind: 'unreadable', why: reasonOf(error) } : undefined;
  }
  const actual = digestFromHex(hash.digest('hex'));
  return actual === digest ? undefined : { kind: 'damaged', actual, sizeBytes };
}

/** Read errors of a medium or of the node's own disk. */
const UNREADABLE: ReadonlySet<string> = new Set(['media/read', 'store/blob']);

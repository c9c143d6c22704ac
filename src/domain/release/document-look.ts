import type { Digest } from '../model/digest.ts';
import type { DocumentCheck, DocumentChecks, PullChecks } from '../state/checks.ts';
import type { Observed, StoredBundle } from '../state/state.ts';
import { isRetired } from './recorded-phase.ts';

interface DocumentedImage {
  readonly reference: string;
  /** Of its manifest, or of the index above it. */
  readonly digest: Digest;
}

export interface DocumentCheckPlan extends Pick<DocumentCheck, 'releases' | 'media'> {
  readonly images: readonly DocumentedImage[];
}

export type DocumentCheckDue =
  | { readonly kind: 'now'; readonly plan: DocumentCheckPlan }
  /** Milliseconds since the epoch; undefined when none is to be made. */
  | { readonly kind: 'later'; readonly at: number | undefined };

/** The first pause with missing documents. The runtime may only have failed to answer. */
const LACKING_MS = 5_000;
const LACKING_GROWTH = 4;
const LACKING_MAX_MS = 5 * 60_000;
/** The same when documents are no longer listed: the disk may be failing. */
const GONE_MS = 60_000;

type Seen = Pick<Observed, 'media' | 'localBlobs'>;

/** Activated releases, and ready ones with documents: an envelope may be ready without any. */
export function documentCheckOf(bundles: readonly StoredBundle[], { media, localBlobs }: Seen): DocumentCheckPlan {
  const hasSome = ({ contents }: StoredBundle) => contents.images.some(({ digest }) => localBlobs.has(digest));
  const releases = bundles
    .filter((bundle) => bundle.readyAt !== undefined && !isRetired(bundle))
    .filter((bundle) => bundle.activatedAt !== undefined || hasSome(bundle));
  const images = releases.flatMap(({ contents }) => contents.images);
  return {
    releases: releases.map(({ bundleId }) => bundleId).join('\n'),
    media: mediaKey(media),
    images: [...new Map(images.map(({ reference, digest }) => [reference, { reference, digest }])).values()],
  };
}

/**
 * Due after the start of the daemon and for each new release; when a document is no longer listed
 * or was not sent for a test pull; and for missing documents when the media change, or after a
 * pause.
 */
export function documentCheckDue(
  bundles: readonly StoredBundle[],
  { now, ...seen }: Seen & Pick<Observed, 'now'>,
  { isRunning, last }: DocumentChecks,
  pullChecks: PullChecks | undefined,
): DocumentCheckDue {
  const plan = documentCheckOf(bundles, seen);
  if (isRunning || plan.images.length === 0) return { kind: 'later', at: undefined };
  if (last === undefined || last.releases !== plan.releases || isUnsent(pullChecks, last)) return { kind: 'now', plan };
  const waits = [
    ...(last.lacking.size === 0 ? [] : [last.media === plan.media ? lackingMs(last) : 0]),
    ...([...last.kept].every((digest) => seen.localBlobs.has(digest)) ? [] : [GONE_MS]),
  ];
  if (waits.length === 0) return { kind: 'later', at: undefined };
  const at = last.at + Math.min(...waits);
  // A time in the future: the wall clock was set back.
  return at <= now || last.at > now ? { kind: 'now', plan } : { kind: 'later', at };
}

function lackingMs({ lackingChecks }: DocumentCheck): number {
  return Math.min(LACKING_MAX_MS, LACKING_MS * LACKING_GROWTH ** (lackingChecks - 1));
}

function isUnsent(pullChecks: PullChecks | undefined, { at }: DocumentCheck): boolean {
  const pull = pullChecks?.last;
  if (pull === undefined || pull.at <= at) return false;
  return pull.end.kind === 'not-sent' || (pull.end.kind === 'failed' && pull.end.isAsked && !pull.end.isSent);
}

function mediaKey(media: Observed['media']): string {
  return media
    .flatMap(({ mediumId, state }) =>
      state.kind === 'read'
        ? state.bundles.map((found) => `${mediumId} ${found.kind === 'verified' ? found.bundle.bundleId : ''}`)
        : [],
    )
    .sort()
    .join('\n');
}

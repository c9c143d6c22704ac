import type { Payload, VerifiedBundle } from '../model/bundle.ts';
import type { BundleId } from '../model/digest.ts';
import type { ReleaseRecord } from './release-record.ts';

/**
 * One line about an ended release without its images, documents and rows. Its times are restored
 * with its stick, so that nothing starts automatically.
 */
export interface PastRelease {
  readonly bundleId: BundleId;
  readonly payload: Pick<Payload, 'name' | 'version' | 'sequence'>;
  readonly record: ReleaseRecord;
  /** Why it was retired, as a sentence. */
  readonly why?: string;
}

/**
 * The statements of a forgotten release about others: barriers, dead ends and advisories. Each use
 * judges it like a known release.
 */
export interface PastSpeaker
  extends Pick<VerifiedBundle, 'bundleId' | 'signedBy' | 'signerKeyIds' | 'signerRoles'>,
    Pick<ReleaseRecord, 'readyAt' | 'resetAt'> {
  readonly payload: Pick<Payload, 'name' | 'version' | 'sequence' | 'advisories' | 'update'>;
  /** A role must cover each repository, so one image of each is enough. */
  readonly contents: { readonly images: readonly { readonly reference: string; readonly tags: readonly string[] }[] };
  /** A person had approved it. */
  readonly isApproved?: true;
}

/** Returns the line of a release that is forgotten now, without data for kept releases. */
export function pastRecord({
  soak: _soak,
  badBlobs: _badBlobs,
  activationOverrides: _overrides,
  activatedUptime: _uptime,
  cancelled: _cancelled,
  ...record
}: ReleaseRecord): ReleaseRecord {
  return record;
}

/** This many speakers of a stream stay. */
const KEPT_SPEAKERS = 200;

/**
 * Adds a speaker. The newest speaker of a stream, version and signers counts: another signer may
 * lose its trust later. The oldest ones of a stream are removed.
 */
export function withSpeaker(before: readonly PastSpeaker[], speaker: PastSpeaker): readonly PastSpeaker[] {
  const covered = new Set<string>();
  const kept = new Map<string, number>();
  const order = ({ payload, resetAt }: PastSpeaker) => (resetAt === undefined ? payload.sequence : 0);
  return [...before, speaker]
    .sort((a, b) => order(b) - order(a))
    .flatMap((one): PastSpeaker[] => {
      const { name, version, sequence } = one.payload;
      const isNew = (about: string) => {
        const key = JSON.stringify([name, about, one.signedBy, one.signerKeyIds, one.signerRoles]);
        return !covered.has(key) && covered.add(key) !== undefined;
      };
      const all = one.resetAt === undefined ? (one.payload.advisories ?? []) : [];
      const advisories = all.filter((advisory) => isNew(advisory.version));
      const { barrier, deadend } = one.payload.update ?? {};
      const speaksOfItself = (barrier !== undefined || deadend !== undefined) && isNew(version);
      const count = kept.get(name) ?? 0;
      if ((advisories.length === 0 && !speaksOfItself) || count === KEPT_SPEAKERS) return [];
      kept.set(name, count + 1);
      const update = { ...(barrier !== undefined && { barrier }), ...(deadend !== undefined && { deadend }) };
      const payload = { ...(advisories.length > 0 && { advisories }), ...(speaksOfItself && { update }) };
      return [{ ...one, payload: { name, version, sequence, ...payload } }];
    });
}

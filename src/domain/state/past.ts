import type { Payload } from '../model/bundle.ts';
import type { BundleId } from '../model/digest.ts';
import type { ReleaseRecord } from './release-record.ts';

/**
 * One line of a release that is over: its images, documents and rows are gone. Its times come back
 * with its stick, so that nothing starts by itself.
 */
export interface PastRelease {
  readonly bundleId: BundleId;
  readonly payload: Pick<Payload, 'name' | 'version' | 'sequence'>;
  readonly record: ReleaseRecord;
  /** Why it was retired, as a sentence. */
  readonly why?: string;
}

/** What a forgotten release says about others: barriers, dead ends and advisories. */
export interface PastSpeaker {
  readonly payload: Pick<Payload, 'name' | 'version' | 'sequence' | 'advisories' | 'update'>;
  readonly resetAt?: number;
  readonly signerKeyIds: readonly string[];
}

/** The line of a release that is forgotten now. What only matters while it is kept is left out. */
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

/** Adds a speaker. Of several of one stream that speak about a version, the newest one counts. */
export function withSpeaker(before: readonly PastSpeaker[], speaker: PastSpeaker): readonly PastSpeaker[] {
  const said = new Set<string>();
  const isNew = (name: string, version: string) => {
    const key = `${name} ${version}`;
    return !said.has(key) && said.add(key) !== undefined;
  };
  const order = ({ payload, resetAt }: PastSpeaker) => (resetAt === undefined ? payload.sequence : 0);
  return [...before, speaker]
    .sort((a, b) => order(b) - order(a))
    .flatMap(({ payload, ...others }): PastSpeaker[] => {
      const { name, version, sequence } = payload;
      const all = others.resetAt === undefined ? (payload.advisories ?? []) : [];
      const advisories = all.filter((one) => isNew(name, one.version));
      const { barrier, deadend } = payload.update ?? {};
      const speaksOfItself = (barrier !== undefined || deadend !== undefined) && isNew(name, version);
      if (advisories.length === 0 && !speaksOfItself) return [];
      const update = { ...(barrier !== undefined && { barrier }), ...(deadend !== undefined && { deadend }) };
      const said = { ...(advisories.length > 0 && { advisories }), ...(speaksOfItself && { update }) };
      return [{ ...others, payload: { name, version, sequence, ...said } }];
    });
}

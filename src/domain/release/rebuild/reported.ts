import type { BundleId } from '../../model/digest.ts';
import type { MediumId } from '../../model/medium.ts';
import type { KnownRelease } from '../../state/release-record.ts';

/** As much of a release in the status document as rebuilding needs. Times are RFC 3339. */
export interface ReportedRelease {
  readonly bundleId: BundleId;
  readonly phase: string;
  /** Absent when it was not adopted. */
  readonly adoptedAt?: string;
  readonly readyAt?: string;
  readonly activatedAt?: string;
  /**
   * Present while its preload is cancelled. `media`: those that were plugged in then and still are.
   */
  readonly cancelled?: { readonly at: string; readonly media: readonly MediumId[] };
  readonly conditions?: readonly {
    readonly type: string;
    readonly status: string;
    readonly reason: string;
    readonly lastTransitionTime: string;
  }[];
}

/** What the last status document says of releases that were adopted and not retired. */
export function knownFromReport(reported: readonly ReportedRelease[]): readonly KnownRelease[] {
  return reported.flatMap((release): KnownRelease[] => {
    const adoptedAt = timeOf(release.adoptedAt);
    if (adoptedAt === undefined || release.phase === 'retired') return [];
    const [readyAt, activatedAt] = [timeOf(release.readyAt), timeOf(release.activatedAt)];
    const cancelledAt = timeOf(release.cancelled?.at);
    return [
      {
        bundleId: release.bundleId,
        adoptedAt,
        ...(readyAt !== undefined && { readyAt }),
        ...(cancelledAt !== undefined && { cancelled: { at: cancelledAt, media: release.cancelled?.media ?? [] } }),
        ...(activatedAt !== undefined && { activatedAt, ...afterActivation(release, activatedAt) }),
      },
    ];
  });
}

/** What came after the activation: the conditions have the times, none is before the activation. */
function afterActivation(
  { phase, conditions = [] }: ReportedRelease,
  activatedAt: number,
): Pick<KnownRelease, 'activeAt' | 'provenAt' | 'rolledBackAt'> {
  const since = (type: string, isIt: (one: { status: string; reason: string }) => boolean) => {
    const found = conditions.find((condition) => condition.type === type && isIt(condition));
    return found && Math.max(activatedAt, timeOf(found.lastTransitionTime) ?? activatedAt);
  };
  const isProven = phase === 'proven' || phase === 'superseded';
  const provenAt = since('Proven', ({ status }) => status === 'True') ?? (isProven ? activatedAt : undefined);
  const rolledBackAt = since('Active', ({ reason }) => reason === 'RolledBack');
  return {
    ...(phase === 'active' && { activeAt: activatedAt }),
    ...(provenAt !== undefined && { provenAt }),
    ...(rolledBackAt !== undefined && { rolledBackAt }),
  };
}

function timeOf(text: string | undefined): number | undefined {
  const time = text === undefined ? Number.NaN : Date.parse(text);
  return Number.isNaN(time) ? undefined : time;
}

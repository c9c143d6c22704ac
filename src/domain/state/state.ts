import { onceFor } from '../../platform/once-for.ts';
import type { FleetView } from '../fleet/node-status.ts';
import type { Pause } from '../fleet/pause.ts';
import type { Sightings } from '../fleet/sightings.ts';
import type { VerifiedBundle } from '../model/bundle.ts';
import type { Digest } from '../model/digest.ts';
import type { BootTime, ImageUses, RuntimeContainer, RuntimeObservation } from '../model/image.ts';
import type { NodeFacts } from '../model/machine.ts';
import type { Medium } from '../model/medium.ts';
import type { Policy } from '../settings/settings.ts';
import type { Approvals, KeyRotation, RejectedName, Revocations, Verdict } from '../trust/approval.ts';
import type { Role } from '../trust/role.ts';
import type { TrustInForce } from '../trust/trust-in-force.ts';
import type { PastRelease, PastSpeaker } from './past.ts';
import type { ReleaseRecord } from './release-record.ts';

export interface StoredBundle extends VerifiedBundle, ReleaseRecord {}

export interface Stored {
  /** Bundles in the order of adoption. */
  readonly bundles: readonly StoredBundle[];
  /** stickpin pulled these when no image of that digest was present. Only these may be removed. */
  readonly pulledByUs?: ReadonlySet<string>;
  /** One verdict for each digest. */
  readonly verdicts: readonly Verdict[];
  /** One entry for each name. */
  readonly rejectedNames?: readonly RejectedName[];
  readonly rotation: KeyRotation;
  /** Releases that have ended, the oldest first. Default none. */
  readonly past?: readonly PastRelease[];
  /** Statements of past releases about others. Default none. */
  readonly speakers?: readonly PastSpeaker[];
  /** Pauses of roll-outs, until they end. Default none. */
  readonly pauses?: readonly Pause[];
  /** The last written sightings of other nodes. Default none. */
  readonly sightings?: Sightings;
}

interface OfStream {
  readonly payload: Pick<VerifiedBundle['payload'], 'name'>;
}

const byStream = onceFor((all: readonly OfStream[]) => Map.groupBy(all, ({ payload }) => payload.name));

const NONE: readonly never[] = [];

/** Returns those of one stream, in order. The cost does not grow with the number of streams. */
export function ofStream<T extends OfStream>(all: readonly T[], stream: string): readonly T[] {
  return (byStream(all).get(stream) as readonly T[] | undefined) ?? NONE;
}

export const bundlesIn = onceFor((entries: readonly { readonly bundle: StoredBundle }[]) =>
  entries.map(({ bundle }): StoredBundle => bundle),
);

/** Whether nodes activate it in an order of the settings or of its bundle. */
export function isOrdered({ payload }: Pick<StoredBundle, 'payload'>, { fleet }: Pick<Policy, 'fleet'>): boolean {
  return fleet.enabled && (fleet.activate === 'ordered' || payload.update?.order !== undefined);
}

export function approvalsIn(
  { verdicts, rejectedNames = [] }: Pick<Stored, 'verdicts' | 'rejectedNames'>,
  policy: Pick<Policy, 'trust'>,
): Approvals {
  return { policy: policy.trust, verdicts, rejectedNames };
}

export interface Observed {
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** An outside source synchronised the clock (timedatectl's NTPSynchronized). */
  readonly clockSynchronised: boolean;
  readonly facts: NodeFacts;
  /** The name of GOARCH. */
  readonly arch: string;
  /** Changes with the set of trusted keys. */
  readonly trustRevision: string;
  readonly revocations: Revocations;
  readonly roles?: readonly Role[];
  /** Only for display. */
  readonly trust: TrustInForce;
  readonly media: readonly Medium[];
  readonly localBlobs: ReadonlySet<Digest>;
  /** Bytes on the node's own disk of layers that are not whole there. Default none. */
  readonly layerParts?: ReadonlyMap<Digest, number>;
  /** The node's own copies of layers are on the filesystem of the runtime's images. */
  readonly layersBesideImages?: boolean;
  readonly runtime: RuntimeObservation;
  readonly containers: readonly RuntimeContainer[] | undefined;
  readonly boot: BootTime;
  readonly imageUses?: ImageUses | undefined;
  /** Undefined when the fleet process does not answer or is off. */
  readonly fleet?: FleetView | undefined;
  /** How long this node has seen other nodes run their releases. */
  readonly sightings?: Sightings | undefined;
  /** The fleet process has not answered for minutes. */
  readonly isFleetSilent?: boolean | undefined;
}

/** Returns a time after all recorded ones, even if the clock has fallen back: order decides. */
export function stampAfter(bundles: readonly StoredBundle[], now: number): number {
  return Math.max(now, 1 + latestStamp(bundles));
}

/** Returns the latest recorded time of these bundles, or 0. */
export function latestStamp(bundles: readonly StoredBundle[]): number {
  const times = bundles.flatMap(
    ({ activatedAt, activationBegunAt, activationRequestedAt, activeAt, provenAt, retiredAt, rolledBackAt }) =>
      [activatedAt, activationBegunAt, activationRequestedAt, activeAt, provenAt, retiredAt, rolledBackAt].map(
        (time) => time ?? 0,
      ),
  );
  return Math.max(0, ...times);
}

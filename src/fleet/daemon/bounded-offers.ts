import type { OfferedBundle } from '../../domain/fleet/node-status.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import type { Fault } from '../../domain/model/reason.ts';
import type { StatusReport } from '../../domain/report/status-schema.ts';
import type { Exclusion, PeerBudgets } from '../wire/peer-budgets.ts';

/** How many bundles one read of a peer takes. The next reads take the others. */
const READ_AT_ONCE = 8;

/** How many bundles of one peer may be needed at the same time. */
const MOST_BUNDLES = 64;

/** Bundles that are remembered of one peer. */
const MOST_REMEMBERED = 1_000;

/** A bundle of a peer that was read. */
interface Visit {
  revision: string;
  /** It is among the rejections or the approvals that this node shows: charged as a refusal. */
  isShown: boolean;
  /** This node has taken it: what changes is only which blobs the peer has. Not charged again. */
  isVerified: boolean;
  /** Until its revision or the keys change; undefined unless its content is refused. */
  refusal?: { readonly path: string; readonly reason: Fault } | undefined;
}

interface Selection {
  /** In the order of `offered`. */
  readonly bundles: readonly OfferedBundle[];
  /** Not read again. */
  readonly refused: readonly { readonly path: string; readonly reason: Fault }[];
  /** More are to be read soon. */
  readonly isCut: boolean;
}

/** Which offered bundles of peers are read, within the budget of each peer. */
export class BoundedOffers {
  private readonly visits = new Map<string, Map<BundleId, Visit>>();

  constructor(private readonly budgets: PeerBudgets) {}

  exclusion(peer: string): Exclusion | undefined {
    return this.budgets.exclusion(peer);
  }

  /** A medium that comes and goes causes lines. */
  arrived(peer: string): void {
    this.budgets.charge(peer, 'arrival', 1);
  }

  hide(peer: string): void {
    for (const visit of this.visits.get(peer)?.values() ?? []) visit.isShown = false;
  }

  /** @param offered those that this node needs. @returns undefined when the peer is left out now */
  select(peer: string, offered: readonly OfferedBundle[]): Selection | undefined {
    const visits = this.visitsOf(peer);
    const isFresh = ({ bundleId, revision }: OfferedBundle) => visits.get(bundleId)?.revision !== revision;
    const considered = [...offered.filter((one) => !isFresh(one)), ...offered.filter(isFresh)].slice(0, MOST_BUNDLES);
    const fresh = considered.filter(isFresh);
    // Those that were read before must not keep others from being read.
    const news = [...fresh.filter((one) => !visits.has(one.bundleId)), ...fresh].slice(0, READ_AT_ONCE);
    const read = new Set(news.map(({ bundleId }) => bundleId));
    const unverified = news.filter(({ bundleId }) => visits.get(bundleId)?.isVerified !== true);
    this.budgets.charge(peer, 'bundle', new Set(unverified.map(({ bundleId }) => bundleId)).size);
    for (const { bundleId, revision } of news) this.remember(visits, bundleId, revision);
    const shown = considered.filter((one) => !isFresh(one));
    const ids = new Set(shown.map(({ bundleId }) => bundleId));
    for (const [bundleId, visit] of visits) if (!ids.has(bundleId)) visit.isShown = false;
    const refused = shown.flatMap(({ bundleId }) => visits.get(bundleId) ?? []).filter(({ refusal }) => refusal);
    for (const visit of refused) this.show(peer, visit);
    if (this.exclusion(peer) !== undefined) return undefined;
    return {
      bundles: shown.filter(({ bundleId }) => visits.get(bundleId)?.refusal === undefined),
      refused: refused.flatMap(({ refusal }) => refusal ?? []),
      isCut: fresh.length > read.size,
    };
  }

  /** Charges what a report of the engine shows of a peer. @param label of its medium */
  reported(peer: string, label: string, { rejected, bundles }: Pick<StatusReport, 'rejected' | 'bundles'>): void {
    const visits = this.visits.get(peer);
    if (visits === undefined) return;
    for (const { medium, path, bundleId, reason } of rejected) {
      const visit = medium === label ? visits.get((bundleId ?? idIn(path)) as BundleId) : undefined;
      if (visit === undefined) continue;
      this.show(peer, visit);
      // One whose signature is good may be taken later.
      if (bundleId === undefined && reason.code.startsWith('bundle/')) visit.refusal = { path, reason };
    }
    for (const { bundleId, hold, media } of bundles) {
      const visit = visits.get(bundleId as BundleId);
      if (visit === undefined) continue;
      visit.isVerified = hold !== 'approval';
      if (!visit.isVerified && media.includes(label)) this.show(peer, visit);
    }
  }

  /** The keys have changed: refused bundles are read again. @returns whether there are any */
  forgetRefusals(peer: string): boolean {
    const visits = [...(this.visits.get(peer)?.values() ?? [])];
    const isAny = visits.some(({ refusal }) => refusal !== undefined);
    for (const visit of visits) visit.refusal = undefined;
    return isAny;
  }

  private show(peer: string, visit: Visit): void {
    if (!visit.isShown) this.budgets.charge(peer, 'refusal', 1);
    visit.isShown = true;
  }

  private visitsOf(peer: string): Map<BundleId, Visit> {
    const visits = this.visits.get(peer) ?? new Map<BundleId, Visit>();
    this.visits.set(peer, visits);
    return visits;
  }

  private remember(visits: Map<BundleId, Visit>, bundleId: BundleId, revision: string): void {
    const { isShown = false, isVerified = false } = visits.get(bundleId) ?? {};
    visits.delete(bundleId);
    const [oldest] = visits.keys();
    if (visits.size >= MOST_REMEMBERED && oldest !== undefined) visits.delete(oldest);
    visits.set(bundleId, { revision, isShown, isVerified });
  }
}

/** The path of a bundle on a peer ends with its id. */
function idIn(path: string): string | undefined {
  return /sha256:[0-9a-f]{64}$/.exec(path)?.[0];
}

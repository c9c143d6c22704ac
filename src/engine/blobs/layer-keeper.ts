import type { KeepPlan } from '../../domain/decide/keep-plan.ts';
import type { Layer } from '../../domain/model/bundle.ts';
import type { Digest } from '../../domain/model/digest.ts';
import { reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { BlobUnion, LayerStore } from '../../ports/blobs.ts';
import { findBadBlob } from './find-damage.ts';

/** What {@link createLayerKeeper} works on. */
export interface LayerKeeperDependencies {
  readonly layers: Pick<LayerStore, 'want' | 'retain' | 'begin' | 'sizeOf'>;
  /** Where blobs are found. */
  readonly source: Pick<BlobUnion, 'read' | 'copiesOf'>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Makes the layers on the node's own disk those of the plan, beside the rounds. */
export interface LayerKeeper {
  /**
   * Follows a new plan. While `isIdle` is false nothing is copied: pulls have the medium for
   * themselves.
   */
  follow(plan: KeepPlan, isIdle: boolean): void;
  /**
   * Bytes that were left to copy when the layer that is being copied was begun; undefined while
   * none is.
   */
  copyingBytes(): number | undefined;
  /** Ends what is under way, and waits for its end. */
  stop(): Promise<void>;
}

/** Pause before a layer that could not be copied is tried again. */
const RETRY_MS = 60_000;

/** What a keeper works on, and what it remembers. */
interface Keeping extends LayerKeeperDependencies {
  /** Called when a copy ended. */
  readonly onEnd: () => void;
  /** When a layer that could not be copied is tried again, by the monotonic clock. */
  readonly retryAt: Map<Digest, number>;
  /** Damage that was logged. */
  readonly logged: Set<string>;
  /** The layer that is being copied. */
  copy: { readonly digest: Digest; readonly controller: AbortController; readonly ended: Promise<void> } | undefined;
  leftBytes: number;
  /** Ends when everything that was to be removed is. */
  removal: Promise<void>;
}

/**
 * A keeper without a plan. `onEnd` is called when a copy ended. INVARIANTS: one copy at a time; one
 * removal at a time, in the order of the plans.
 */
export function createLayerKeeper(deps: LayerKeeperDependencies, onEnd: () => void): LayerKeeper {
  const keeping: Keeping = {
    ...deps,
    onEnd,
    retryAt: new Map(),
    logged: new Set(),
    copy: undefined,
    leftBytes: 0,
    removal: Promise.resolve(),
  };
  return {
    follow: (plan, isIdle) => follow(keeping, plan, isIdle),
    copyingBytes: () => (keeping.copy === undefined ? undefined : keeping.leftBytes),
    stop: async () => {
      keeping.copy?.controller.abort();
      await keeping.copy?.ended;
      await keeping.removal;
    },
  };
}

function follow(keeping: Keeping, plan: KeepPlan, isIdle: boolean): void {
  keeping.layers.want(plan.wanted);
  keeping.removal = keeping.removal.then(() => removeUnwanted(keeping, plan.wanted));
  if (keeping.copy !== undefined) {
    const { digest, controller } = keeping.copy;
    if (!isIdle || plan.copy.every((layer) => layer.digest !== digest)) controller.abort();
    return;
  }
  const now = keeping.clock.monotonic();
  const due = plan.copy.filter(({ digest }) => now >= (keeping.retryAt.get(digest) ?? 0));
  keeping.leftBytes = due.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  const next = isIdle ? due[0] : undefined;
  if (next !== undefined) start(keeping, next);
}

/** Never throws: what can't be removed stays until the next plan. */
async function removeUnwanted({ layers, log }: Keeping, wanted: ReadonlySet<Digest>): Promise<void> {
  try {
    const count = await layers.retain(wanted);
    if (count > 0) log.info({}, `Removed ${count} kept layers that nothing needs any more`);
  } catch (error) {
    log.warn({ err: error }, `Layers that nothing needs could not be removed: ${reasonOf(error)}`);
  }
}

function start(keeping: Keeping, layer: Layer): void {
  const controller = new AbortController();
  const ended = copyLayer(keeping, layer, controller.signal)
    .catch((error: unknown) => {
      if (controller.signal.aborted) return;
      postpone(keeping, layer.digest);
      keeping.log.warn({ err: error, digest: layer.digest }, `${layer.digest} could not be kept: ${reasonOf(error)}`);
    })
    .finally(() => {
      keeping.copy = undefined;
      keeping.onEnd();
    });
  keeping.copy = { digest: layer.digest, controller, ended };
}

async function copyLayer(keeping: Keeping, { digest, sizeBytes }: Layer, signal: AbortSignal): Promise<void> {
  const { layers, source } = keeping;
  // A copy that was found bad was reported by who found it, and is trusted again once its medium
  // changes.
  const copies = await source.copiesOf(digest, signal);
  if (!copies.some(({ isTrusted }) => isTrusted)) return postpone(keeping, digest);
  const writer = await layers.begin(digest, sizeBytes);
  if (writer === undefined) {
    if ((await layers.sizeOf(digest, signal)) === undefined) postpone(keeping, digest);
    return;
  }
  try {
    for await (const chunk of source.read(digest, writer.startByte, signal)) await writer.write(chunk);
  } catch (error) {
    // All bytes came and were wrong: that holds, whatever happened then.
    if (!writer.isDamaged()) throw error;
  } finally {
    await writer.close();
  }
  if (writer.isDamaged()) await nameDamage(keeping, digest, signal);
  else if ((await layers.sizeOf(digest, signal)) === undefined) postpone(keeping, digest);
}

/** Finds and distrusts the bad copy, so that the next try takes another one, if there is one. */
async function nameDamage(keeping: Keeping, digest: Digest, signal: AbortSignal): Promise<void> {
  const came = `Blob ${digest} came with other bytes than it has`;
  try {
    const bad = await findBadBlob([digest], keeping.source, signal);
    if (bad?.instead === undefined) postpone(keeping, digest);
    const what =
      bad === undefined
        ? `${came}, and is right where it lies; it is copied again`
        : `Blob ${digest} could not be kept on this node: it is damaged on ${bad.at}. Copy the bundle to it again`;
    logDamage(keeping, digest, what);
  } catch (error) {
    if (!signal.aborted) throw error;
    logDamage(keeping, digest, `${came}; pulls need its medium now, and it is copied again later`);
  }
}

function postpone({ retryAt, clock }: Keeping, digest: Digest): void {
  retryAt.set(digest, clock.monotonic() + RETRY_MS);
}

function logDamage({ logged, log }: Keeping, digest: Digest, what: string): void {
  if (logged.has(what)) return;
  logged.add(what);
  log.warn({ digest }, what);
}

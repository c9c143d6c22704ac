import type { KeepPlan } from '../../domain/decide/keep-plan.ts';
import type { Layer } from '../../domain/model/bundle.ts';
import type { Digest } from '../../domain/model/digest.ts';
import { reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import { oneBuffer } from '../../platform/files/chunk-buffer.ts';
import type { Log } from '../../platform/log.ts';
import type { BlobSource, BlobUnion, LayerCopies } from '../../ports/blobs.ts';
import { findBadBlob } from './find-damage.ts';

/** The adapters of {@link createLayerKeeper}. */
export interface LayerKeeperDependencies {
  readonly layers: LayerCopies & Pick<BlobSource, 'sizeOf'>;
  /** Where blobs are found. */
  readonly source: Pick<BlobUnion, 'read' | 'copiesOf'>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Copies and removes layers on the node's own disk to match a plan, in parallel to the rounds. */
export interface LayerKeeper {
  /**
   * Follows a new plan. Nothing is copied while `isIdle` is false, so that pulls don't share the
   * medium.
   */
  follow(plan: KeepPlan, isIdle: boolean): void;
  /**
   * Bytes that were left to copy when the copy of the current layer began. Undefined while no layer
   * is copied.
   */
  copyingBytes(): number | undefined;
  /** Aborts the copy and the removals, and waits until they have ended. */
  stop(): Promise<void>;
}

/** Pause before the copy of a layer is tried again after a failure. */
const RETRY_MS = 60_000;

/** The adapters and the state of a keeper. */
interface Keeping extends LayerKeeperDependencies {
  /** Called when a copy has ended. */
  readonly onEnd: () => void;
  /** When the copy of a layer is tried again after a failure, in monotonic milliseconds. */
  readonly retryAt: Map<Digest, number>;
  /** Messages about damage that were logged. */
  readonly logged: Set<string>;
  /** The layer that is being copied. */
  copy: { readonly digest: Digest; readonly controller: AbortController; readonly ended: Promise<void> } | undefined;
  leftBytes: number;
  /** Resolves when all removals so far have ended. */
  removal: Promise<void>;
  /** Ends the removals. */
  readonly stopping: AbortController;
}

/**
 * Creates a keeper without a plan. `onEnd` is called when a copy has ended. INVARIANTS: one copy at
 * a time; one removal at a time, in the order of the plans.
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
    stopping: new AbortController(),
  };
  return {
    follow: (plan, isIdle) => follow(keeping, plan, isIdle),
    copyingBytes: () => (keeping.copy === undefined ? undefined : keeping.leftBytes),
    stop: async () => {
      keeping.stopping.abort();
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

/** Never throws. Layers that can't be removed stay until the next plan. */
async function removeUnwanted(
  { layers, log, stopping: { signal } }: Keeping,
  wanted: ReadonlySet<Digest>,
): Promise<void> {
  try {
    const count = await layers.retain(wanted, signal);
    if (count > 0) log.info({}, `Removed ${count} kept layers that nothing needs any more`);
  } catch (error) {
    if (signal.aborted) return;
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
  // A bad copy was already reported by the code that found it. It is trusted again when its medium
  // changes.
  const copies = await source.copiesOf(digest, signal);
  if (!copies.some(({ isTrusted }) => isTrusted)) return postpone(keeping, digest);
  const writer = await layers.begin(digest, sizeBytes, undefined, signal);
  if (writer === undefined) {
    if ((await layers.sizeOf(digest, signal)) === undefined) postpone(keeping, digest);
    return;
  }
  try {
    const chunks = source.read(digest, writer.startByte, signal, oneBuffer());
    for await (const chunk of chunks) await writer.write(chunk, signal);
  } catch (error) {
    // All bytes were read and their digest was wrong. A later error does not change that.
    if (!writer.isDamaged()) throw error;
  } finally {
    await writer.close();
  }
  if (writer.isDamaged()) await nameDamage(keeping, digest, signal);
  else if ((await layers.sizeOf(digest, signal)) === undefined) postpone(keeping, digest);
}

/** Finds and distrusts the bad copy, so that the next try uses another one if there is one. */
async function nameDamage(keeping: Keeping, digest: Digest, signal: AbortSignal): Promise<void> {
  const came = `Blob ${digest} was read with wrong bytes`;
  try {
    const bad = await findBadBlob([digest], keeping.source, signal);
    if (bad?.instead === undefined) postpone(keeping, digest);
    const what =
      bad === undefined
        ? `${came}, but its copies have the right ones; it is copied again`
        : `Blob ${digest} could not be kept on this node: it is damaged on ${bad.at}. Copy the bundle to it again`;
    logDamage(keeping, digest, what);
  } catch (error) {
    if (!signal.aborted) throw error;
    logDamage(keeping, digest, `${came}; it is copied again later, since pulls need its medium now`);
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

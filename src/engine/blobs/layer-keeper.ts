import type { KeepPlan } from '../../domain/decide/keep-plan.ts';
import type { Layer } from '../../domain/model/bundle.ts';
import type { Digest } from '../../domain/model/digest.ts';
import { reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { BlobUnion, LayerStore } from '../../ports/blobs.ts';
import { findBadBlob } from './find-damage.ts';

/** What the keeper works on. */
export interface LayerKeeperDependencies {
  readonly layers: LayerStore;
  /** Where blobs are found. */
  readonly source: Pick<BlobUnion, 'read' | 'copiesOf'>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Makes the layers on the node's own disk those of the plan, beside the loop. */
export interface LayerKeeper {
  /** Follows a new plan. While `isIdle` is false nothing is copied: pulls have the medium for themselves. */
  follow(plan: KeepPlan, isIdle: boolean): void;
  /** Bytes that were left to copy when the layer that is being copied was begun; undefined while none is. */
  copyingBytes(): number | undefined;
  /** Ends what is under way. */
  stop(): Promise<void>;
}

/** A layer that could not be copied is not tried again before that. */
const RETRY_MS = 60_000;

/** A keeper without a plan. `onEnd` is called when a copy ended. */
export function createLayerKeeper(deps: LayerKeeperDependencies, onEnd: () => void): LayerKeeper {
  const { layers, clock, log } = deps;
  const retryAt = new Map<Digest, number>();
  const told = new Set<string>();
  let copy: { digest: Digest; controller: AbortController; ended: Promise<void> } | undefined;
  let leftBytes = 0;
  let removal: Promise<void> = Promise.resolve();

  const postpone = (digest: Digest): void => {
    retryAt.set(digest, clock.monotonic() + RETRY_MS);
  };
  const tellDamage = (digest: Digest, what: string): void => {
    if (told.has(what)) return;
    told.add(what);
    log.warn({ digest }, what);
  };
  /** Finds and distrusts the bad copy, so that the next try takes another one, if there is one. */
  const nameDamage = async (digest: Digest, signal: AbortSignal): Promise<void> => {
    const came = `Blob ${digest} came with other bytes than it has`;
    try {
      const bad = await findBadBlob([digest], deps.source, signal);
      if (bad?.instead === undefined) postpone(digest);
      const what =
        bad === undefined
          ? `${came}, and is right where it lies; it is copied again`
          : `Blob ${digest} could not be kept on this node: it is damaged on ${bad.at}. Copy the bundle to it again`;
      tellDamage(digest, what);
    } catch (error) {
      if (!signal.aborted) throw error;
      tellDamage(digest, `${came}; pulls need its medium now, and it is copied again later`);
    }
  };
  const copyOne = async ({ digest, sizeBytes }: Layer, signal: AbortSignal): Promise<void> => {
    // A copy that was found bad is told by who found it, and trusted again once its medium changes.
    if (!(await deps.source.copiesOf(digest, signal)).some(({ isTrusted }) => isTrusted)) return postpone(digest);
    const writer = await layers.begin(digest, sizeBytes);
    if (writer === undefined) {
      if ((await layers.sizeOf(digest, signal)) === undefined) postpone(digest);
      return;
    }
    try {
      for await (const chunk of deps.source.read(digest, writer.startByte, signal)) await writer.write(chunk);
    } catch (error) {
      // All bytes came, and were wrong: that holds, whatever happened then.
      if (!writer.isDamaged()) throw error;
    } finally {
      await writer.close();
    }
    if (writer.isDamaged()) await nameDamage(digest, signal);
    else if ((await layers.sizeOf(digest, signal)) === undefined) postpone(digest);
  };
  const start = (layer: Layer): void => {
    const controller = new AbortController();
    const ended = copyOne(layer, controller.signal)
      .catch((error: unknown) => {
        if (controller.signal.aborted) return;
        postpone(layer.digest);
        log.warn({ err: error, digest: layer.digest }, `${layer.digest} could not be kept: ${reasonOf(error)}`);
      })
      .finally(() => {
        copy = undefined;
        onEnd();
      });
    copy = { digest: layer.digest, controller, ended };
  };
  const isDue = ({ digest }: Layer): boolean => clock.monotonic() >= (retryAt.get(digest) ?? 0);

  return {
    copyingBytes: () => (copy === undefined ? undefined : leftBytes),
    follow: (plan, isIdle) => {
      layers.want(plan.wanted);
      removal = removal.then(async () => {
        const count = await layers.retain(plan.wanted).catch((error: unknown) => {
          log.warn({ err: error }, `Layers that nothing needs could not be removed: ${reasonOf(error)}`);
          return 0;
        });
        if (count > 0) log.info({}, `Removed ${count} kept layers that nothing needs any more`);
      });
      if (copy !== undefined) {
        const { digest, controller } = copy;
        if (!isIdle || plan.copy.every((layer) => layer.digest !== digest)) controller.abort();
        return;
      }
      const due = plan.copy.filter(isDue);
      leftBytes = due.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
      const next = isIdle ? due[0] : undefined;
      if (next !== undefined) start(next);
    },
    stop: async () => {
      copy?.controller.abort();
      await copy?.ended;
      await removal;
    },
  };
}

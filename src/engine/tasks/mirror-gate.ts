import type { Digest } from '../../domain/model/digest.ts';
import type { RenderedMirrors } from '../../domain/model/image.ts';
import { AppError } from '../../platform/app-error.ts';
import { untilAborted } from '../../platform/async/abort.ts';
import { pauseAfter } from '../../platform/backoff.ts';
import type { Clock } from '../../platform/clock.ts';
import type { RuntimePort } from '../../ports/runtime.ts';
import type { MirrorProbes, TransferMeter } from '../../ports/transfers.ts';

export interface MirrorProbeDependencies {
  readonly runtime: Pick<RuntimePort, 'pull'>;
  readonly meter: Pick<TransferMeter, 'manifestRequests' | 'manifestsSent'>;
}

export interface ProbeEnd {
  readonly isRequested: boolean;
  readonly isSent: boolean;
  readonly failure: unknown;
}

/**
 * Lets the runtime pull a digest, to find out whether it uses our registry for this repository. A
 * runtime requests the manifest even of an image that it has (docs/runtime-facts.md, fact 17). A
 * digest names the same image in every registry. Only the request counts, not the result of the
 * pull.
 * @throws only what aborted `signal`
 */
export async function probeMirror(
  repository: string,
  digest: Digest,
  { runtime, meter }: MirrorProbeDependencies,
  signal: AbortSignal,
): Promise<ProbeEnd> {
  const requested = meter.manifestRequests(repository, digest);
  const sent = meter.manifestsSent(repository, digest);
  let failure: unknown;
  try {
    await runtime.pull(`${repository}@${digest}`, signal);
  } catch (error) {
    failure = error;
  }
  const isRequested = meter.manifestRequests(repository, digest) !== requested;
  if (!isRequested) signal.throwIfAborted();
  return { isRequested, isSent: meter.manifestsSent(repository, digest) !== sent, failure };
}

/** The runtime is unreachable or stops. */
export function isRuntimeAway({ failure }: ProbeEnd): boolean {
  return failure instanceof AppError && ['runtime/unreachable', 'runtime/stopping'].includes(failure.code);
}

/** The adapters of the gate. */
export interface MirrorGateDependencies extends MirrorProbeDependencies {
  readonly clock: Clock;
  readonly probes: MirrorProbes;
}

/** Why a pull may begin: the mirror is in use, or the runtime did not ask our registry in time. */
export type GateEnd = 'open' | 'timed-out';

/** Delays pulls until the runtime uses the mirrors that were written for them. */
export interface MirrorGate {
  /** Sets the repositories with mirrors. Those that are known to be in use stay known. */
  written(repositories: readonly string[]): void;
  /**
   * Waits until the runtime uses the mirror of `repository`. After a time-out all mirrors of now
   * let pulls pass, so that each change of mirrors is waited for, and reported, only once. They are
   * not proven by that.
   *
   * @param mirrors the mirrors as rendered now
   * @throws whatever aborted `signal`
   */
  pass(repository: string, mirrors: RenderedMirrors, signal: AbortSignal): Promise<GateEnd>;
  /** Whether the runtime has asked our registry since the mirror of `repository` was written. */
  isProven(repository: string): boolean;
  /** The runtime asked our registry for `repository`. Proves all mirrors not written after it. */
  prove(repository: string): void;
}

/**
 * How long the runtime may take until it uses new mirrors. CRI-O needs less than a second unless it
 * is busy.
 */
const TAKE_UP_MS = 10_000;
/**
 * The longest time for one probe. A runtime without the mirror asks the image's own registry, which
 * may answer late or never.
 */
const PROBE_MS = 2_000;
/** After a probe that did not reach our registry. An idle runtime needs a few probes. */
const PAUSES = { firstMs: 20, longestMs: 320 };
/**
 * How often the meter is read during a probe, so that the probe ends soon after our registry was
 * asked.
 */
const CHECK_MS = 50;

/** What the gate knows of the mirrors. */
interface Known {
  /** The count of writes at which each mirror came. 0: it was there before the daemon. */
  readonly writtenAt: Map<string, number>;
  writes: number;
  /** Mirrors that the runtime uses. */
  proven: ReadonlySet<string>;
  /** Mirrors that were waited for in vain. */
  givenUp: ReadonlySet<string>;
}

/**
 * Creates a gate for which no mirror is known to be in use.
 *
 * All mirrors are in one file and take effect together. So one mirror proves all that were written
 * with it or before it. The probe pulls a manifest that only our registry has. Before the mirror is
 * in effect, that pull fails elsewhere. Afterwards our registry sees the request and answers it, so
 * that the runtime asks nobody else.
 */
export function createMirrorGate(deps: MirrorGateDependencies): MirrorGate {
  const known: Known = { writtenAt: new Map(), writes: 0, proven: new Set(), givenUp: new Set() };
  let probing: Promise<unknown> | undefined;
  const passes = (repository: string) => known.proven.has(repository) || known.givenUp.has(repository);
  return {
    written: (repositories) => {
      known.writes += 1;
      keep(known, repositories, known.writes);
    },
    isProven: (repository) => known.proven.has(repository),
    prove: (repository) => prove(known, repository),
    pass: async (repository, { repositories, takeEffect }, signal) => {
      if (takeEffect === 'at-once' || takeEffect === 'own-pulls') return 'open';
      keep(known, repositories, 0);
      while (probing !== undefined && !passes(repository)) {
        // The pull that probes may be cancelled. Then one of the waiting pulls probes.
        const over = probing.catch(() => undefined);
        await untilAborted(over, signal);
      }
      if (passes(repository) || !repositories.includes(repository)) return 'open';
      const taking = waitForUse(repository, takeEffect, deps, signal);
      probing = taking;
      try {
        const end = await taking;
        if (end === 'open') prove(known, repository);
        // Mirrors that were written meanwhile are waited for again.
        if (end === 'timed-out') known.givenUp = new Set([...known.givenUp, ...repositories]);
        return end === 'away' ? 'open' : end;
      } finally {
        probing = undefined;
      }
    },
  };
}

/** Forgets all mirrors but these. */
function keep(known: Known, repositories: readonly string[], writtenAt: number): void {
  const now = new Set(repositories);
  for (const repository of known.writtenAt.keys()) if (!now.has(repository)) known.writtenAt.delete(repository);
  for (const repository of now) {
    if (!known.writtenAt.has(repository)) known.writtenAt.set(repository, writtenAt);
  }
  known.proven = new Set([...known.proven].filter((repository) => now.has(repository)));
  known.givenUp = new Set([...known.givenUp].filter((repository) => now.has(repository)));
}

function prove(known: Known, repository: string): void {
  const at = known.writtenAt.get(repository) ?? 0;
  const together = [...known.writtenAt].flatMap(([other, writtenAt]) => (writtenAt <= at ? [other] : []));
  known.proven = new Set([...known.proven, repository, ...together]);
}

/**
 * Probes until the mirror is in effect, or until the time-out. A runtime that uses mirrors with its
 * next pull is probed once. Returns at once when the runtime is unreachable: the pull will report
 * that.
 */
async function waitForUse(
  repository: string,
  takeEffect: RenderedMirrors['takeEffect'],
  deps: MirrorGateDependencies,
  signal: AbortSignal,
): Promise<GateEnd | 'away'> {
  const { clock, probes } = deps;
  const endsAt = clock.monotonic() + TAKE_UP_MS;
  for (let count = 1; clock.monotonic() < endsAt; count += 1) {
    // Each probe has another digest, because a runtime may merge two pulls of the same name.
    const seen = await isSeen(repository, probes.offer(repository, `${clock.now()} ${count}`), deps, signal);
    if (seen === 'seen') return 'open';
    if (seen === 'away') return 'away';
    if (takeEffect === 'next-pull') break;
    await clock.sleep(pauseAfter(count, PAUSES), signal);
  }
  return 'timed-out';
}

async function isSeen(
  repository: string,
  digest: Digest,
  deps: MirrorGateDependencies,
  signal: AbortSignal,
): Promise<'seen' | 'unseen' | 'away'> {
  const timeout = new AbortController();
  const onAbort = () => timeout.abort(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  const probe = probeMirror(repository, digest, deps, timeout.signal).catch(() => undefined);
  try {
    let end: Awaited<typeof probe> | 'under way' = 'under way';
    for (let waitedMs = 0; end === 'under way' && waitedMs < PROBE_MS; waitedMs += CHECK_MS) {
      const pause = deps.clock.sleep(CHECK_MS, timeout.signal).then(() => 'under way' as const);
      pause.catch(() => undefined); // aborted when the probe ends first
      end = await Promise.race([probe, pause]);
      if (deps.meter.manifestRequests(repository, digest) > 0) return 'seen';
    }
    return typeof end === 'object' && isRuntimeAway(end) ? 'away' : 'unseen';
  } finally {
    timeout.abort();
    signal.removeEventListener('abort', onAbort);
    await untilAborted(probe, signal);
  }
}

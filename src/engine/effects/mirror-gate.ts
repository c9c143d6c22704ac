import type { Digest } from '../../domain/model/digest.ts';
import type { RenderedMirrors } from '../../domain/model/runtime-image.ts';
import { untilAborted } from '../../platform/async/abort.ts';
import type { Clock } from '../../platform/clock.ts';
import { digestOf } from '../../platform/digest.ts';
import { isRuntimeAway, type MirrorProbeDependencies, probeMirror } from './mirror-probe.ts';

/** The adapters of the gate. */
export interface MirrorGateDependencies extends MirrorProbeDependencies {
  readonly clock: Clock;
}

/** Why a pull may begin: the mirror is in use, or the wait for it timed out. */
export type GateEnd = 'open' | 'timed-out';

/** Delays pulls until the runtime uses the mirrors that were written for them. */
export interface MirrorGate {
  /** Sets the repositories with mirrors. Those that are known to be in use stay known. */
  written(repositories: readonly string[]): void;
  /**
   * Waits until the runtime uses the mirror of `repository`. After a time-out all mirrors of now
   * count as in use, so that each change of mirrors is waited for, and reported, only once.
   *
   * @param mirrors the mirrors as rendered now
   * @throws whatever aborted `signal`
   */
  pass(repository: string, mirrors: RenderedMirrors, signal: AbortSignal): Promise<GateEnd>;
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
/**
 * Pause after the first probe that did not reach our registry. Doubled each time, up to {@link
 * PAUSE_MAX_MS}. An idle runtime needs a few probes.
 */
const PAUSE_MS = 20;
const PAUSE_MAX_MS = 320;
/**
 * How often the meter is read during a probe, so that the probe ends soon after our registry was
 * asked.
 */
const LOOK_MS = 50;

/**
 * Creates a gate for which no mirror is known to be in use.
 *
 * All mirrors are in one file and take effect together. So one mirror that was not in effect before
 * proves all of them. The probe pulls a digest that no registry has. Before the mirror is in
 * effect, that pull fails elsewhere; afterwards our registry sees the request and answers 404.
 */
export function createMirrorGate(deps: MirrorGateDependencies): MirrorGate {
  let known: ReadonlySet<string> = new Set();
  let probing: Promise<unknown> | undefined;
  const keep = (repositories: readonly string[]): void => {
    known = new Set(repositories.filter((repository) => known.has(repository)));
  };
  return {
    written: keep,
    pass: async (repository, { repositories, takeEffect }, signal) => {
      if (takeEffect === 'at-once') return 'open';
      keep(repositories);
      while (probing !== undefined && !known.has(repository)) {
        // The pull that probes may be cancelled. Then one of the waiting pulls probes.
        const over = probing.catch(() => undefined);
        await untilAborted(over, signal);
      }
      if (known.has(repository) || !repositories.includes(repository)) return 'open';
      const taking = takeUp(repository, deps, signal);
      probing = taking;
      try {
        const end = await taking;
        // Mirrors that were written meanwhile are not proven by this probe.
        if (end !== 'away') known = new Set([...known, ...repositories]);
        return end === 'away' ? 'open' : end;
      } finally {
        probing = undefined;
      }
    },
  };
}

/**
 * Probes until the mirror is in effect, or until the time-out. Returns at once when the runtime is
 * unreachable: the pull will report that.
 */
async function takeUp(
  repository: string,
  deps: MirrorGateDependencies,
  signal: AbortSignal,
): Promise<GateEnd | 'away'> {
  const { clock } = deps;
  const endsAt = clock.monotonic() + TAKE_UP_MS;
  for (let count = 1; clock.monotonic() < endsAt; count += 1) {
    // Each probe has another digest, because a runtime may merge two pulls of the same name.
    const seen = await isSeen(repository, probeDigest(`${repository} ${clock.now()} ${count}`), deps, signal);
    if (seen === 'seen') return 'open';
    if (seen === 'away') return 'away';
    await clock.sleep(Math.min(PAUSE_MAX_MS, PAUSE_MS * 2 ** (count - 1)), signal);
  }
  return 'timed-out';
}

async function isSeen(
  repository: string,
  digest: Digest,
  deps: MirrorGateDependencies,
  signal: AbortSignal,
): Promise<'seen' | 'unseen' | 'away'> {
  const own = new AbortController();
  const onAbort = () => own.abort(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  const probe = probeMirror(repository, digest, deps, own.signal).catch(() => undefined);
  try {
    let end: Awaited<typeof probe> | 'under way' = 'under way';
    for (let waitedMs = 0; end === 'under way' && waitedMs < PROBE_MS; waitedMs += LOOK_MS) {
      const look = deps.clock.sleep(LOOK_MS, own.signal).then(() => 'under way' as const);
      look.catch(() => undefined); // aborted when the probe ends first
      end = await Promise.race([probe, look]);
      if (deps.meter.manifestRequests(repository, digest) > 0) return 'seen';
    }
    return typeof end === 'object' && isRuntimeAway(end) ? 'away' : 'unseen';
  } finally {
    own.abort();
    signal.removeEventListener('abort', onAbort);
    await untilAborted(probe, signal);
  }
}

function probeDigest(text: string): Digest {
  return digestOf(`stickpin mirror probe ${text}`);
}

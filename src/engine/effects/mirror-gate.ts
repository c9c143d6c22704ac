import type { Digest } from '../../domain/model/digest.ts';
import type { RenderedMirrors } from '../../domain/model/runtime-image.ts';
import { untilAborted } from '../../platform/async/abort.ts';
import type { Clock } from '../../platform/clock.ts';
import { digestOf } from '../../platform/digest.ts';
import { isRuntimeAway, type MirrorProbeDependencies, probeMirror } from './mirror-probe.ts';

/** What the gate needs. */
export interface MirrorGateDependencies extends MirrorProbeDependencies {
  readonly clock: Clock;
}

/** Whether a pull may begin: the runtime comes to our registry, or it was waited for in vain. */
export type GateEnd = 'open' | 'waited-in-vain';

/** Holds pulls back until the runtime has taken up the mirrors that were written for them. */
export interface MirrorGate {
  /** The mirrors are these from now on. What was taken up of them before stays so. */
  written(repositories: readonly string[]): void;
  /**
   * Waits until mirrors that hold this repository's were taken up. It is said but once for each
   * change of mirrors that this was in vain: who asks after that is let through.
   *
   * @param mirrors as they are rendered now
   * @throws whatever aborted `signal`.
   */
  pass(repository: string, mirrors: RenderedMirrors, signal: AbortSignal): Promise<GateEnd>;
}

/** How long mirrors may take to be taken up. CRI-O needs less than a second, unless it is busy. */
const TAKE_UP_MS = 10_000;
/**
 * One probe takes no longer: a runtime that has no mirror yet asks the image's own registry, which
 * may answer late or never.
 */
const PROBE_MS = 2_000;
/**
 * Pause after the first probe that was not seen; doubled each time up to {@link PAUSE_MAX_MS}. A
 * runtime at rest is there after a few.
 */
const PAUSE_MS = 20;
const PAUSE_MAX_MS = 320;
/** How often it is looked whether our registry was asked, so that no probe goes on after that. */
const LOOK_MS = 50;

/**
 * A gate that has let nothing through yet.
 *
 * All mirrors are written in one file and taken up together, so that one of them is proof for all;
 * only one that was not in force before is. It is probed with a digest that no registry has: until
 * the mirror is in force that gives nothing, and afterwards it is seen at our registry alone, which
 * answers 404.
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
        // Who probes may be cancelled; then it is another one's turn.
        const over = probing.catch(() => undefined);
        await untilAborted(over, signal);
      }
      if (known.has(repository) || !repositories.includes(repository)) return 'open';
      const taking = takeUp(repository, deps, signal);
      probing = taking;
      try {
        const end = await taking;
        // What was written meanwhile is not proven by this.
        if (end !== 'away') known = new Set([...known, ...repositories]);
        return end === 'away' ? 'open' : end;
      } finally {
        probing = undefined;
      }
    },
  };
}

/**
 * Probes until the mirror is in force, or for as long as that may take. A runtime that is away is
 * not waited for: the pull will say so.
 */
async function takeUp(
  repository: string,
  deps: MirrorGateDependencies,
  signal: AbortSignal,
): Promise<GateEnd | 'away'> {
  const { clock } = deps;
  const endsAt = clock.monotonic() + TAKE_UP_MS;
  for (let count = 1; clock.monotonic() < endsAt; count += 1) {
    // Each has a digest of its own: a runtime may answer two pulls of one name together.
    const seen = await isSeen(repository, probeDigest(`${repository} ${clock.now()} ${count}`), deps, signal);
    if (seen === 'seen') return 'open';
    if (seen === 'away') return 'away';
    await clock.sleep(Math.min(PAUSE_MAX_MS, PAUSE_MS * 2 ** (count - 1)), signal);
  }
  return 'waited-in-vain';
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
      look.catch(() => undefined); // the probe may end first
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

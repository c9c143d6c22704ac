import type { CrioState } from '../crio-state.ts';
import { type ArtifactStore, isArtifact } from './artifact-store.ts';
import type { PullRequest, Skopeo } from './skopeo.ts';

/**
 * How a pull ended: undefined when it worked, else the text of CRI-O's gRPC answer and whether the
 * pull was cancelled.
 */
export type PullFailure = { readonly text: string; readonly isCancelled: boolean } | undefined;

/**
 * Runs pulls. Equal requests at the same time are one pull, which ends with the first caller's
 * cancellation, as in CRI-O.
 */
export interface Pulls {
  pull(name: string, credentials: string | undefined, signal: AbortSignal): Promise<PullFailure>;
  /** Whether any runs now. */
  areRunning(): boolean;
}

/** Every pull is one process of skopeo on the registries configuration of the last reload. */
export function createPulls(deps: { state: CrioState; skopeo: Skopeo; artifacts: ArtifactStore }): Pulls {
  const { state } = deps;
  const running = new Map<string, Promise<PullFailure>>();
  return {
    areRunning: () => running.size > 0,
    pull: (name, credentials, signal) => {
      const key = JSON.stringify([name, credentials]);
      const present = running.get(key);
      if (present !== undefined) return present;
      const { signaturePolicy, bigFilesDirectory, pullProgressTimeoutMs } = state.configuration;
      const request = {
        name,
        ...(credentials !== undefined && { credentials }),
        home: state.registries.home,
        policyFile: signaturePolicy,
        bigFilesDirectory,
        progressTimeoutMs: pullProgressTimeoutMs,
      };
      const pull = pullOnce(deps, request, signal).finally(() => running.delete(key));
      running.set(key, pull);
      return pull;
    },
  };
}

async function pullOnce(
  { skopeo, artifacts }: { readonly skopeo: Skopeo; readonly artifacts: ArtifactStore },
  request: PullRequest,
  signal: AbortSignal,
): Promise<PullFailure> {
  const { ok, message } = await skopeo.pull(request, signal);
  if (ok) return undefined;
  if (message === 'context canceled') return { text: `unable to pull image: ${message}`, isCancelled: true };
  const policy = /^Error loading trust policy: (.*)/s.exec(message)?.[1];
  if (policy !== undefined) return { text: policy, isCancelled: false };
  const cause = lastCause(message);
  if (isNetworkError(cause)) {
    const text = `unable to pull image: ${message}`;
    return { text: /connection refused/.test(cause) ? `RegistryUnavailable: ${text}` : text, isCancelled: false };
  }
  // What is no network error could mean that the reference names an artifact: CRI-O asks for the
  // manifest again and tells of both.
  const manifest = await skopeo.readManifest(request, signal);
  const pulled = manifest.ok && isArtifact(manifest.output) ? await artifacts.pull(request, signal) : undefined;
  if (pulled?.ok === true) return undefined;
  const artifact = manifest.ok
    ? (pulled?.message ?? 'reference is a container image, not an OCI artifact')
    : `get manifest from ref: ${manifest.message}`;
  const text = `unable to pull image or OCI artifact: pull image err: ${message}; artifact err: image reference: ${artifact}`;
  const isRejected = message.startsWith('Source image rejected');
  return { text: isRejected ? `SignatureValidationFailed: ${text}` : text, isCancelled: false };
}

/**
 * What CRI-O judges a failure by: the error of the last place that was tried. What the mirrors
 * before it said, and why a broken transfer could not be continued, is in the message only.
 */
function lastCause(message: string): string {
  return message.replace(/\(Mirrors also failed: .*\]\): /s, '').replace(/\(while reconnecting: .*\)/s, '');
}

/** Errors of Go's `net` and of its HTTP client, in their wording. */
function isNetworkError(message: string): boolean {
  return /dial tcp|connection reset|i\/o timeout|(Get|Head|Post) "https?:/.test(message);
}

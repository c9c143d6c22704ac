import type { CrioState } from './crio-state.ts';
import type { Skopeo, SkopeoResult } from './skopeo.ts';

/** Runs pulls. Equal requests at the same time are one pull, which ends with the first caller's cancellation, as in CRI-O. */
export interface Pulls {
  pull(name: string, credentials: string | undefined, signal: AbortSignal): Promise<SkopeoResult>;
}

/** Every pull is one process of skopeo on the registries configuration of the last reload. */
export function createPulls(deps: { state: CrioState; skopeo: Skopeo }): Pulls {
  const { state, skopeo } = deps;
  const running = new Map<string, Promise<SkopeoResult>>();
  return {
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
      const pull = skopeo.pull(request, signal).finally(() => running.delete(key));
      running.set(key, pull);
      return pull;
    },
  };
}

/** A failed pull as CRI-O's gRPC answer words it: the text, and whether the call was cancelled. */
export function pullFailure(message: string): { readonly text: string; readonly isCancelled: boolean } {
  if (message === 'context canceled') return { text: `unable to pull image: ${message}`, isCancelled: true };
  // Network errors are told as they are; after any other CRI-O tries the reference as an artifact and tells of both.
  if (isNetworkError(message)) {
    const text = `unable to pull image: ${message}`;
    return { text: /connection refused/.test(message) ? `RegistryUnavailable: ${text}` : text, isCancelled: false };
  }
  const artifact = isManifestError(message)
    ? `image reference: get manifest from ref: ${message}`
    : 'image reference: reference is a container image, not an OCI artifact';
  const text = `unable to pull image or OCI artifact: pull image err: ${message}; artifact err: ${artifact}`;
  return { text: isSignatureError(message) ? `SignatureValidationFailed: ${text}` : text, isCancelled: false };
}

function isNetworkError(message: string): boolean {
  return /dial tcp|connection refused|connection reset|i\/o timeout|no such host/.test(message);
}

function isManifestError(message: string): boolean {
  return /initializing source|reading manifest|pinging container registry/.test(message);
}

function isSignatureError(message: string): boolean {
  return /Source image rejected/.test(message);
}

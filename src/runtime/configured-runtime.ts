import type { Settings } from '../domain/settings/settings.ts';
import { PLAIN_CANDIDATES, type RuntimeCandidate } from './detect.ts';

/**
 * The runtime of this node, as the settings and the detection say: `runtime.kind` decides which
 * one, and the detection only where it is `auto`. `runtime.socket` and `runtime.certs_dir` replace
 * paths.
 *
 * @param found what was detected
 */
export function configuredRuntime(
  { kind, socket, certs_dir: certsDirectory }: Settings['runtime'],
  found: RuntimeCandidate | undefined,
): RuntimeCandidate | undefined {
  const chosen = kind === 'cri-o' || kind === 'containerd' ? PLAIN_CANDIDATES[kind] : found;
  if (chosen === undefined) return undefined;
  return {
    ...chosen,
    ...(socket !== undefined && { socketPath: socket }),
    ...(certsDirectory !== undefined && { certsDirectory }),
  };
}

import type { ExaminedRuntime } from '../../doctor/check.ts';
import { systemClock } from '../../platform/clock.ts';
import { CONTAINERD_CONFIG_FILE } from '../../runtime/containerd/mirror-places.ts';
import { findRegistryConfigPath } from '../../runtime/containerd/registry-config-path.ts';
import { callAgain } from '../../runtime/cri/call-again.ts';
import { createCriClient } from '../../runtime/cri/cri-client.ts';
import { filesystemAt } from '../../runtime/cri/observe.ts';
import type { RuntimeCandidate } from '../../runtime/detect.ts';

/**
 * A runtime over its CRI socket, as the checks see it. Nothing is connected before the first call.
 */
export function createExaminedRuntime({
  kind,
  title,
  socketPath,
  certsDirectory,
}: Pick<RuntimeCandidate, 'kind' | 'title' | 'socketPath' | 'certsDirectory'>): ExaminedRuntime {
  const cri = createCriClient({ socketPath });
  return {
    title,
    socketPath,
    status: (signal) => callAgain(cri.status, systemClock, signal),
    version: (signal) => callAgain(cri.version, systemClock, signal),
    mirrors: async (signal) => {
      if (kind !== 'containerd') return { kind: 'read' };
      const [info, name] = await Promise.all([cri.statusInfo(signal), cri.version(signal)]);
      const configFile = certsDirectory === undefined ? CONTAINERD_CONFIG_FILE : undefined;
      const configured = await findRegistryConfigPath({ info, name, configFile }, signal);
      return { kind: configured.kind === 'unset' ? 'unset' : 'read' };
    },
    imageFilesystem: async (signal) => {
      const path = await callAgain(cri.imageFilesystemPath, systemClock, signal);
      return path === undefined ? undefined : filesystemAt(path);
    },
    close: cri.close,
  };
}

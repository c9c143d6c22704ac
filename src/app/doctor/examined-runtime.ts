import type { ExaminedRuntime } from '../../doctor/check.ts';
import { systemClock } from '../../platform/clock.ts';
import { findMirrorPlaces } from '../../runtime/containerd/mirror-places.ts';
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
      const places = await findMirrorPlaces(cri, { certsDirectory, configFile: undefined }, signal);
      return places.length === 0 ? { kind: 'unset' } : { kind: 'read', folders: places.map(([folder]) => folder) };
    },
    imageFilesystem: async (signal) => {
      const path = await callAgain(cri.imageFilesystemPath, systemClock, signal);
      return path === undefined ? undefined : filesystemAt(path);
    },
    close: cri.close,
  };
}

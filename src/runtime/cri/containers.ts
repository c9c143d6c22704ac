import type { RuntimeContainer } from '../../domain/model/runtime-container.ts';
import { forEachLimited } from '../../platform/async/concurrency.ts';
import type { ContainersPort } from '../../ports/runtime.ts';
import type { ContainerTimes, CriClient, ListedContainer } from './cri-client.ts';

/** Calls of `ContainerStatus` at once. */
const PARALLEL = 4;

/**
 * Containers over CRI. `ListContainers` tells neither start times nor exit codes, so that
 * `ContainerStatus` is asked once for each container that runs or has exited; a container starts
 * once and ends once, what starts anew is another one.
 */
export function createContainers(cri: CriClient): ContainersPort {
  let known = new Map<string, ContainerTimes>();
  return {
    containers: async (signal) => {
      const listed = await cri.listContainers(signal);
      const times = new Map<string, ContainerTimes>();
      await forEachLimited(listed, PARALLEL, signal, async (container, inner) => {
        if (stateOf(container) === 'other') return;
        const key = keyOf(container);
        const found = known.get(key) ?? (await cri.containerTimes(container.id, inner));
        if (found !== undefined) times.set(key, found);
      });
      known = times;
      return listed.flatMap((container) => toRuntimeContainer(container, times.get(keyOf(container))));
    },
    removeContainer: cri.removeContainer,
    removeImage: cri.removeImage,
  };
}

function keyOf({ id, state }: ListedContainer): string {
  return `${id} ${state}`;
}

/** One that is gone between the two calls is left out. */
function toRuntimeContainer(container: ListedContainer, times: ContainerTimes | undefined): RuntimeContainer[] {
  const state = stateOf(container);
  if (state !== 'other' && times === undefined) return [];
  const { id, podSandboxId, metadata, imageId, imageRef, image } = container;
  return [
    {
      containerId: id,
      key: `${podSandboxId}/${metadata?.name ?? id}`,
      attempt: metadata?.attempt ?? 0,
      imageNames: [imageId, imageRef, image?.image ?? ''].filter((name) => name !== '' && isSure(name)),
      state,
      startedAt: times?.startedAt ?? 0,
      exitCode: times?.exitCode ?? 0,
    },
  ];
}

function stateOf({ state }: ListedContainer): RuntimeContainer['state'] {
  if (state === 'CONTAINER_RUNNING') return 'running';
  return state === 'CONTAINER_EXITED' ? 'exited' : 'other';
}

/** An id or a name by digest: a tag may name another image by now. */
function isSure(name: string): boolean {
  return name.includes('@') || /^(sha256:)?[0-9a-f]{64}$/.test(name);
}

import type { RuntimeContainer } from '../../domain/model/runtime-container.ts';
import { forEachLimited } from '../../platform/async/concurrency.ts';
import type { ContainersPort } from '../../ports/runtime.ts';
import type { ContainerTimes, CriClient, ListedContainer } from './cri-client.ts';

/** Number of parallel `ContainerStatus` calls. */
const PARALLEL = 4;

/**
 * Containers over CRI. `ListContainers` has no start times and exit codes, so `ContainerStatus` is
 * called once for each running and each exited container. The result is cached, because a container
 * starts and ends only once.
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

/** A container that disappears between the two calls is left out. */
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

/** An id or a name by digest. A tag is not sure, because it may name another image now. */
function isSure(name: string): boolean {
  return name.includes('@') || /^(sha256:)?[0-9a-f]{64}$/.test(name);
}

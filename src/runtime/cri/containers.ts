import type { ImageUse, RuntimeContainer } from '../../domain/model/image.ts';
import { forEachLimited } from '../../platform/async/concurrency.ts';
import type { ContainersPort } from '../../ports/runtime.ts';
import type { ContainerTimes, CriClient, ListedContainer } from './cri-client.ts';

const PARALLEL = 4;

/**
 * `ListContainers` has no start times, exit codes and image volumes, so `ContainerStatus` is called
 * once for each state of each container, and cached.
 * @param pauseImage of pod sandboxes, which `ListContainers` does not list
 */
export function createContainers(cri: CriClient, pauseImage: PauseImage): ContainersPort {
  let known = new Map<string, ContainerTimes>();
  return {
    containers: async (signal) => {
      const listed = await cri.listContainers(signal);
      const times = new Map<string, ContainerTimes>();
      await forEachLimited(listed, PARALLEL, signal, async (container, inner) => {
        const key = keyOf(container);
        const found = known.get(key) ?? (await timesOf(cri, container, inner));
        if (found !== undefined) times.set(key, found);
      });
      known = times;
      return listed.map((container) => toRuntimeContainer(container, times.get(keyOf(container))));
    },
    containerImages: async (signal) => {
      const listed = await cri.listContainers(signal);
      return [...(await pauseUse(cri, pauseImage, signal)), ...listed.flatMap(requestedImage)];
    },
    removeContainer: (containerId, signal) => cri.removeContainer(containerId, signal),
    removeImage: (imageId, signal) => cri.removeImage(imageId, signal),
  };
}

export interface PauseImage {
  /** `pause_image of CRI-O`. */
  readonly setting: string;
  /** Returns undefined or '' when it is not known. */
  readonly read: (signal: AbortSignal) => Promise<string | undefined>;
}

/** The runtime pulls it when a pod starts, if it is absent. An image by digest needs no pull. */
async function pauseUse(cri: CriClient, { setting, read }: PauseImage, signal: AbortSignal): Promise<ImageUse[]> {
  const usedBy = `every pod, by ${setting}`;
  const unknown = [{ usedBy, image: '', pullPolicy: 'Never' }];
  try {
    const image = await read(signal);
    if (image === undefined || image === '') return unknown;
    const isPresent = (await cri.imageStatus(image, signal)) !== undefined;
    const name = image.slice(0, MAX_NAME);
    return [{ usedBy, image: name, pullPolicy: isPresent ? 'IfNotPresent' : 'Always' }];
  } catch {
    signal.throwIfAborted();
    return unknown;
  }
}

/** A container that did not start may have no status. */
async function timesOf(
  cri: CriClient,
  container: ListedContainer,
  signal: AbortSignal,
): Promise<ContainerTimes | undefined> {
  if (stateOf(container) !== 'other') return cri.containerTimes(container.id, signal);
  try {
    return await cri.containerTimes(container.id, signal);
  } catch {
    signal.throwIfAborted();
    return undefined;
  }
}

function keyOf({ id, state }: ListedContainer): string {
  return `${id} ${state}`;
}

/** A container without a status disappears, or is damaged: its image is not known. */
function toRuntimeContainer(container: ListedContainer, times: ContainerTimes | undefined): RuntimeContainer {
  const state = times === undefined ? 'other' : stateOf(container);
  const { id, podSandboxId, metadata, imageId, imageRef, image } = container;
  const ran = state === 'other' ? undefined : times;
  return {
    containerId: id,
    key: `${podSandboxId}/${metadata?.name ?? id}`,
    attempt: metadata?.attempt ?? 0,
    imageNames: [imageId, imageRef, image?.image ?? ''].filter((name) => name !== '' && isSure(name)),
    state,
    startedAt: ran?.startedAt ?? 0,
    exitCode: ran?.exitCode ?? 0,
    ...(image?.userSpecifiedImage && { podImage: image.userSpecifiedImage }),
    ...volumesOf(times),
  };
}

function volumesOf(times: ContainerTimes | undefined): Pick<RuntimeContainer, 'volumeImages'> {
  if (times === undefined) return { volumeImages: 'unknown' };
  return times.volumeImages.length === 0 ? {} : { volumeImages: times.volumeImages };
}

/** The limit for names that a runtime lists unchecked. */
export const MAX_NAME = 512;

function requestedImage(container: ListedContainer): ImageUse[] {
  const { metadata, id, image, labels = {} } = container;
  const name = image?.userSpecifiedImage || image?.image || '';
  if (stateOf(container) !== 'running' || name === '') return [];
  return [{ usedBy: userOf(labels, metadata?.name ?? id), image: name.slice(0, MAX_NAME) }];
}

/** `Pod kube-system/etcd, container etcd`. `labels`: the kubelet's (kubelet/types/labels.go). */
export function userOf(labels: Readonly<Record<string, string>>, containerName: string): string {
  const pod = labels['io.kubernetes.pod.name'];
  const namespace = labels['io.kubernetes.pod.namespace'];
  const owner = pod === undefined ? '' : `Pod ${namespace === undefined ? '' : `${namespace}/`}${pod}, `;
  return `${owner}container ${containerName}`.slice(0, MAX_NAME);
}

function stateOf({ state }: ListedContainer): RuntimeContainer['state'] {
  if (state === 'CONTAINER_RUNNING') return 'running';
  return state === 'CONTAINER_EXITED' ? 'exited' : 'other';
}

/** An id or a name by digest. A tag may name another image now. */
export function isSure(name: string): boolean {
  return name.includes('@') || /^(sha256:)?[0-9a-f]{64}$/.test(name);
}

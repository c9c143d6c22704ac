import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import type { CrioDouble } from '../start-crio-double.ts';
import type { FixtureContainer } from './containers.ts';
import { connectCri } from './cri-client.ts';

/** Starts and ends containers of a double as kubelet would; nothing really runs in them. */
export interface FixtureContainers {
  /**
   * Starts a container of a pod from an image that the double has; the one before in this pod is
   * removed. Returns its id.
   */
  start(pod: string, image: string): Promise<string>;
  /** The same image again in the same pod: another container, one attempt later. */
  restart(pod: string): void;
  /** As if a container of a pod had run from an image and ended before anybody looked. */
  startEnded(pod: string, image: string, exitCode: number): Promise<void>;
  /** Ends the container of a pod, which stays as an exited one. */
  end(pod: string, exitCode: number): void;
  /** Takes all containers away. */
  clear(): void;
}

/** Control over the containers file of `double`. */
export function fixtureContainers({ socketPath, dirs }: CrioDouble): FixtureContainers {
  let count = 0;
  const list = (): FixtureContainer[] => {
    try {
      return JSON.parse(readFileSync(dirs.containersFile, 'utf8')).containers;
    } catch {
      return []; // none was started yet
    }
  };
  const write = (containers: readonly FixtureContainer[]) => {
    writeFileSync(`${dirs.containersFile}.test`, JSON.stringify({ containers }));
    renameSync(`${dirs.containersFile}.test`, dirs.containersFile);
  };
  const ofPod = (pod: string) => list().find((container) => container.pod_sandbox_id === pod);
  const others = (pod: string) => list().filter((container) => container.pod_sandbox_id !== pod);
  const nanoseconds = () => `${BigInt(Date.now()) * 1_000_000n}`;
  const imageId = async (name: string): Promise<string> => {
    const client = connectCri(socketPath);
    try {
      const found = await client.imageStatus(name);
      if (found === undefined) throw new Error(`the double has no image ${name}`);
      return found.id;
    } finally {
      client.close();
    }
  };
  const made = (pod: string, id: string, attempt: number): FixtureContainer => {
    count += 1;
    const at = nanoseconds();
    const image = { image: { image: id }, image_ref: id, image_id: id };
    const times = { created_at: at, started_at: at };
    const metadata = { name: 'main', attempt };
    const containerId = `${count}`.padStart(64, '0');
    return { id: containerId, pod_sandbox_id: pod, metadata, ...image, state: 'CONTAINER_RUNNING', ...times };
  };
  const ended = (container: FixtureContainer, exitCode: number): FixtureContainer => ({
    ...container,
    state: 'CONTAINER_EXITED',
    exit_code: exitCode,
    finished_at: nanoseconds(),
  });
  const put = (container: FixtureContainer) => write([...others(container.pod_sandbox_id ?? ''), container]);
  return {
    start: async (pod, image) => {
      const container = made(pod, await imageId(image), 0);
      put(container);
      return container.id;
    },
    startEnded: async (pod, image, exitCode) => put(ended(made(pod, await imageId(image), 0), exitCode)),
    restart: (pod) => {
      const before = ofPod(pod);
      put(made(pod, before?.image_id ?? '', (before?.metadata?.attempt ?? 0) + 1));
    },
    end: (pod, exitCode) => {
      const before = ofPod(pod);
      if (before !== undefined) put(ended(before, exitCode));
    },
    clear: () => write([]),
  };
}

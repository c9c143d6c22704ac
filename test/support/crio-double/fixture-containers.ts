import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import type { FixtureContainer } from './containers.ts';
import { connectCri } from './cri-client.ts';
import type { CrioDouble } from './start-crio-double.ts';

/** Starts and ends containers of a double as kubelet would; nothing really runs in them. */
export interface FixtureContainers {
  /** Starts a container of a pod from an image that the double has; the one before in this pod is removed. Returns its id. */
  start(pod: string, image: string): Promise<string>;
  /** The same image again in the same pod: another container, one attempt later. */
  restart(pod: string): void;
  /** Ends the container of a pod, which stays as an exited one. */
  end(pod: string, exitCode: number): void;
  /** Takes the container of a pod away. */
  remove(pod: string): void;
  list(): readonly FixtureContainer[];
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
  const put = (pod: string, imageId: string, attempt: number): string => {
    count += 1;
    const id = `${count}`.padStart(64, '0');
    const at = nanoseconds();
    const image = { image: { image: imageId }, image_ref: imageId, image_id: imageId };
    const metadata = { name: 'main', attempt };
    const times = { created_at: at, started_at: at };
    write([...others(pod), { id, pod_sandbox_id: pod, metadata, ...image, state: 'CONTAINER_RUNNING', ...times }]);
    return id;
  };
  return {
    list,
    start: async (pod, image) => {
      const client = connectCri(socketPath);
      try {
        const found = await client.imageStatus(image);
        if (found === undefined) throw new Error(`the double has no image ${image}`);
        return put(pod, found.id, 0);
      } finally {
        client.close();
      }
    },
    restart: (pod) => {
      const before = ofPod(pod);
      put(pod, before?.image_id ?? '', (before?.metadata?.attempt ?? 0) + 1);
    },
    end: (pod, exitCode) => {
      const before = ofPod(pod);
      if (before === undefined) return;
      const ended = { state: 'CONTAINER_EXITED', exit_code: exitCode, finished_at: nanoseconds() };
      write([...others(pod), { ...before, ...ended }]);
    },
    remove: (pod) => write(others(pod)),
  };
}

import type { BootTime, ImageFilesystem, RuntimeContainer, RuntimeImage } from '../../../../src/domain/model/image.ts';
import { GIB, NOON } from '../scenario.ts';

/** A container of the model, and the uptime since which it runs. */
export interface ModelContainer extends RuntimeContainer {
  readonly sinceMs: number;
}

/**
 * What a node is apart from stickpin, as plain values: a clock, a runtime and what runs in it.
 * Nothing happens in it by itself.
 */
export interface ModelMachine {
  /** Image id by name; the id of an image is the reference by which it came. */
  readonly images: Map<string, string>;
  pins: readonly string[];
  mirrors: readonly string[];
  /** Default: 60 GiB of 100 GiB are free. */
  filesystem: () => ImageFilesystem;
  now(): number;
  boot(): BootTime;
  containers(): readonly ModelContainer[];
  listed(): readonly RuntimeImage[];
  /**
   * Starts a container of a pod from an image that is there, in place of the one before; from the
   * same image it is the next attempt.
   */
  run(pod: string, reference: string): void;
  /** The same image once more in a pod. */
  restart(pod: string): void;
  /** Ends the container of a pod; it stays as an exited one. */
  end(pod: string, exitCode: number): void;
  /**
   * Removes an image with all its names. @throws Error when a container has it, be it an exited
   * one, as a runtime does
   */
  removeImage(imageId: string): void;
  removeContainers(containerIds: readonly string[]): void;
  /** All containers vanish. */
  drain(): void;
  /** Containers and the time since the boot are gone; images and pins stay. */
  reboot(): void;
  pass(ms: number): void;
  /** Sets the wall clock back or forth. */
  jump(ms: number): void;
}

/** A machine at noon, a second after it booted, with these images, which nobody pinned. */
export function createModelMachine(images: readonly string[] = []): ModelMachine {
  let containers: readonly ModelContainer[] = [];
  let bootId = 'boot-0';
  let [now, uptimeMs, counter] = [NOON, 1_000, 0];
  const others = (pod: string) => containers.filter(({ key }) => key !== pod);
  const machine: ModelMachine = {
    images: new Map(images.map((name) => [name, name])),
    pins: [],
    mirrors: [],
    filesystem: () => ({ path: '/var', totalBytes: 100 * GIB, freeBytes: 60 * GIB }),
    now: () => now,
    boot: () => ({ bootId, uptimeMs }),
    containers: () => containers,
    listed: () => [...new Set(machine.images.values())].map((imageId) => imageOf(imageId, machine)),
    run: (key, reference) => {
      if (!machine.images.has(reference)) return;
      counter += 1;
      const before = containers.find((one) => one.key === key);
      const attempt = before?.imageNames.includes(reference) ? before.attempt + 1 : 0;
      const made = {
        containerId: `c${counter}`,
        key,
        attempt,
        imageNames: [reference],
        podImage: reference,
        exitCode: 0,
        startedAt: now,
      };
      containers = [...others(key), { ...made, state: 'running', sinceMs: uptimeMs }];
    },
    restart: (pod) => {
      const [reference = ''] = containers.find(({ key }) => key === pod)?.imageNames ?? [];
      machine.run(pod, reference);
    },
    removeImage: (imageId) => {
      const user = containers.find(({ imageNames }) => imageNames.some((name) => machine.images.get(name) === imageId));
      if (user !== undefined) throw new Error(`image ${imageId} is in use by the container of ${user.key}`);
      for (const [name, id] of machine.images) if (id === imageId) machine.images.delete(name);
    },
    end: (pod, exitCode) => {
      containers = containers.map((one) => (one.key === pod ? { ...one, state: 'exited', exitCode } : one));
    },
    removeContainers: (containerIds) => {
      containers = containers.filter((one) => !containerIds.includes(one.containerId));
    },
    drain: () => {
      containers = [];
    },
    reboot: () => {
      counter += 1;
      bootId = `boot-${counter}`;
      uptimeMs = 1_000;
      containers = [];
    },
    pass: (ms) => {
      now += ms;
      uptimeMs += ms;
    },
    jump: (ms) => {
      now += ms;
    },
  };
  return machine;
}

function imageOf(imageId: string, { images, pins }: ModelMachine): RuntimeImage {
  const names = [...images].flatMap(([name, id]) => (id === imageId ? [name] : []));
  return {
    imageId,
    repoTags: names.filter((name) => !name.includes('@')),
    repoDigests: names.filter((name) => name.includes('@')),
    pinned: names.some((name) => pins.includes(name)),
  };
}

import { readFileSync, renameSync, writeFileSync } from 'node:fs';

/**
 * A container of the fixture: a CRI `Container` with what `ContainerStatus` adds, in the proto
 * file's own field names.
 */
export interface FixtureContainer {
  readonly id: string;
  readonly pod_sandbox_id?: string;
  readonly metadata?: { readonly name: string; readonly attempt?: number };
  readonly image?: { readonly image: string };
  readonly image_ref?: string;
  readonly image_id?: string;
  /** Name of a `ContainerState`. */
  readonly state?: string;
  readonly created_at?: string | number;
  readonly started_at?: string | number;
  readonly finished_at?: string | number;
  readonly exit_code?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** A pod sandbox of the fixture, a CRI `PodSandbox`. */
export interface FixtureSandbox {
  readonly id: string;
  readonly state?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly [field: string]: unknown;
}

/** Containers and sandboxes that a test has written down; nothing runs in them. */
export interface Containers {
  list(): readonly FixtureContainer[];
  sandboxes(): readonly FixtureSandbox[];
  /** Takes a container out of the file. */
  remove(id: string): void;
}

/**
 * Reads the file anew at each call, so that a test changes what runs by writing it. Without a file
 * nothing runs.
 */
export function createContainers(file: string | undefined): Containers {
  const read = (): { containers?: FixtureContainer[]; sandboxes?: FixtureSandbox[] } => {
    if (file === undefined) return {};
    try {
      return JSON.parse(readFileSync(file, 'utf8'));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
      throw new Error(`containers fixture ${file}: ${(error as Error).message}`);
    }
  };
  return {
    list: () => read().containers ?? [],
    sandboxes: () => read().sandboxes ?? [],
    remove: (id) => {
      if (file === undefined) return;
      const content = read();
      const containers = (content.containers ?? []).filter((container) => container.id !== id);
      writeFileSync(`${file}.new`, JSON.stringify({ ...content, containers }));
      renameSync(`${file}.new`, file);
    },
  };
}

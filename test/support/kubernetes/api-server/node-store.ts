import { isDeepStrictEqual } from 'node:util';
import type { NodeObject } from './node-object.ts';
import { validateMetadata } from './validate.ts';

/** A change of one Node, and the version after it. */
export interface Change {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly version: number;
  readonly node: NodeObject;
}

/** All Nodes, with the changes that a watch may still ask for. */
export interface NodeStore {
  version(): number;
  /** Changes up to this version are forgotten: who asks for later ones gets 410. */
  forgottenUntil(): number;
  get(name: string): NodeObject | undefined;
  list(): readonly NodeObject[];
  add(node: NodeObject): void;
  remove(name: string): void;
  /**
   * Replaces a Node; without a difference nothing changes, not even its version. @throws Refusal
   * 422
   */
  put(node: NodeObject): NodeObject;
  since(version: number): readonly Change[];
  /** Forgets all changes up to now, as etcd does when it is compacted. */
  compact(): void;
  /** Calls `listener` with each change until the function that it returns is called. */
  follow(listener: (change: Change) => void): () => void;
}

/** An empty {@link NodeStore}. */
export function createNodeStore(): NodeStore {
  const nodes = new Map<string, NodeObject>();
  const listeners = new Set<(change: Change) => void>();
  let [version, forgotten, changes]: [number, number, Change[]] = [1_000, 1_000, []];

  const record = (type: Change['type'], node: NodeObject): NodeObject => {
    version += 1;
    const now = { ...node, metadata: { ...node.metadata, resourceVersion: String(version) } };
    if (type === 'DELETED') nodes.delete(node.metadata.name);
    else nodes.set(node.metadata.name, now);
    const change = { type, version, node: now };
    changes.push(change);
    for (const listener of [...listeners]) listener(change);
    return now;
  };
  return {
    version: () => version,
    forgottenUntil: () => forgotten,
    get: (name) => nodes.get(name),
    list: () => [...nodes.values()].sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1)),
    add: (node) => {
      record('ADDED', node);
    },
    remove: (name) => {
      const node = nodes.get(name);
      if (node !== undefined) record('DELETED', node);
    },
    put: (node) => {
      validateMetadata(node);
      const before = nodes.get(node.metadata.name);
      return before !== undefined && isDeepStrictEqual(before, node) ? before : record('MODIFIED', node);
    },
    since: (from) => changes.filter((change) => change.version > from),
    compact: () => {
      version += 1;
      forgotten = version;
      changes = [];
    },
    follow: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

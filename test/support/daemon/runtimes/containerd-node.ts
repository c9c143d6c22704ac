import { atEnd } from '../../files/temporary-folder.ts';
import { createDaemonHarness, type DaemonHarness, type HarnessOptions } from '../daemon-harness.ts';
import { type Containerd, startContainerd } from './containerd.ts';

/** The daemon and containerd beside each other, as on a node. */
export interface ContainerdNode {
  readonly harness: DaemonHarness;
  readonly containerd: Containerd;
  /** Ends both and removes everything. */
  dispose(): Promise<void>;
}

/**
 * Starts containerd and makes a harness whose daemon is not started yet; both end with the test.
 */
export async function createContainerdNode(options: HarnessOptions = {}): Promise<ContainerdNode> {
  const containerd = await startContainerd();
  const runtime = { kind: 'containerd', socket: containerd.socketPath } as const;
  const harness = await createDaemonHarness({ ...options, settings: { ...options.settings, runtime } });
  const node: ContainerdNode = {
    harness,
    containerd,
    dispose: async () => {
      await harness.dispose();
      await containerd.stop();
    },
  };
  atEnd(node.dispose);
  return node;
}

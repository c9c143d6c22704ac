import { GrpcClient } from '../../../src/runtime/cri/grpc-client.ts';

/**
 * What is to run: the image of each pod's one container by the pod's name, a reference by digest or
 * by tag.
 */
export type WantedPods = Readonly<Record<string, string>>;

/**
 * Pods on a container runtime, as kubelet keeps them, on the node's own network, so that no network
 * plugin is needed.
 */
export interface Pods {
  /**
   * Makes what runs what is wanted, and returns the container id of each pod. A pod that runs from
   * the wanted image is left alone. Any other one is stopped in order and stays as exited until
   * {@link removeDead}; what is lacking is started with an attempt higher than any before, as
   * kubelet does after a reboot.
   */
  sync(wanted: WantedPods): Promise<Readonly<Record<string, string>>>;
  /**
   * Ends the pod's container and starts another one in the same pod, as kubelet does when one has
   * died. Returns its id.
   */
  restart(name: string): Promise<string>;
  /** Removes everything that does not run. */
  removeDead(): Promise<void>;
  close(): void;
}

/** Where the runtime listens, and the folder in which `pods.proto` lies. */
export interface PodsOptions {
  readonly socketPath: string;
  readonly protoRoot: string;
}

interface Sandbox {
  readonly id: string;
  readonly metadata: { readonly name: string; readonly uid: string; readonly namespace: string; attempt: number };
  readonly state: 'SANDBOX_READY' | 'SANDBOX_NOTREADY';
}

interface Container {
  readonly id: string;
  readonly podSandboxId: string;
  readonly metadata: { readonly name: string; readonly attempt: number };
  readonly image: { readonly image: string };
  readonly state: string;
}

const CONTAINER_NAME = 'main';
/** Generous: an emulated machine starts a container in seconds. */
const timeoutMs = 120_000;
const stopSeconds = 60;

/** {@link Pods} over the socket of a CRI. */
export function createPods({ socketPath, protoRoot }: PodsOptions): Pods {
  const grpc = new GrpcClient({ socketPath, protoRoot, protoFile: 'pods.proto' });
  const call = async <Response>(method: string, request: object = {}): Promise<Response> => {
    const { signal } = new AbortController();
    return (await grpc.call('runtime.v1.RuntimeService', method, request, { signal, timeoutMs })) as Response;
  };
  const look = async () => {
    const { items } = await call<{ items: Sandbox[] }>('ListPodSandbox');
    const { containers } = await call<{ containers: Container[] }>('ListContainers');
    return { sandboxes: items, containers };
  };

  async function start(sandbox: Sandbox, image: string, containers: readonly Container[]): Promise<string> {
    // Not their count: exited ones may have been removed.
    const attempt = nextAttempt(containers);
    const request = {
      podSandboxId: sandbox.id,
      config: { metadata: { name: CONTAINER_NAME, attempt }, image: { image }, linux: onNode },
      sandboxConfig: { metadata: sandbox.metadata, linux: onNode },
    };
    const { containerId } = await call<{ containerId: string }>('CreateContainer', request);
    await call('StartContainer', { containerId });
    return containerId;
  }

  async function run(name: string, image: string): Promise<string> {
    const { sandboxes, containers } = await look();
    const before = sandboxes.filter(({ metadata }) => metadata.name === name);
    const attempt = nextAttempt(before);
    const metadata = { name, uid: `uid-of-${name}`, namespace: 'kube-system', attempt };
    const made = await call<{ podSandboxId: string }>('RunPodSandbox', { config: { metadata, linux: onNode } });
    const own = containers.filter(({ podSandboxId }) => before.some(({ id }) => id === podSandboxId));
    return start({ id: made.podSandboxId, metadata, state: 'SANDBOX_READY' }, image, own);
  }

  async function running(): Promise<Map<string, { sandbox: Sandbox; container: Container | undefined }>> {
    const { sandboxes, containers } = await look();
    const ready = sandboxes.filter(({ state }) => state === 'SANDBOX_READY');
    return new Map(
      ready.map((sandbox) => {
        const isRunning = ({ podSandboxId, state }: Container) =>
          podSandboxId === sandbox.id && state === 'CONTAINER_RUNNING';
        return [sandbox.metadata.name, { sandbox, container: containers.find(isRunning) }] as const;
      }),
    );
  }

  return {
    sync: async (wanted) => {
      const ids: Record<string, string> = {};
      for (const [name, { sandbox, container }] of await running()) {
        if (container !== undefined && container.image.image === wanted[name]) {
          ids[name] = container.id;
          continue;
        }
        if (container !== undefined) await call('StopContainer', { containerId: container.id, timeout: stopSeconds });
        await call('StopPodSandbox', { podSandboxId: sandbox.id });
      }
      const lacking = Object.entries(wanted).filter(([name]) => ids[name] === undefined);
      const started = lacking.map(async ([name, image]) => [name, await run(name, image)] as const);
      return { ...ids, ...Object.fromEntries(await Promise.all(started)) };
    },
    restart: async (name) => {
      const { sandbox, container } = (await running()).get(name) ?? {};
      if (sandbox === undefined || container === undefined) throw new Error(`no pod ${name} runs`);
      await call('StopContainer', { containerId: container.id, timeout: stopSeconds });
      const { containers } = await look();
      return start(
        sandbox,
        container.image.image,
        containers.filter(({ podSandboxId }) => podSandboxId === sandbox.id),
      );
    },
    removeDead: async () => {
      for (const { id, state } of (await look()).sandboxes) {
        if (state !== 'SANDBOX_READY') await call('RemovePodSandbox', { podSandboxId: id });
      }
    },
    close: () => grpc.close(),
  };
}

function nextAttempt(before: readonly { readonly metadata: { readonly attempt: number } }[]): number {
  return Math.max(-1, ...before.map(({ metadata }) => metadata.attempt)) + 1;
}

/**
 * Of a sandbox and of a container alike: the numbers of their members differ, their names do not.
 */
const onNode = { securityContext: { namespaceOptions: { network: 'NODE', pid: 'CONTAINER' } } };

import { status as grpcStatus } from '@grpc/grpc-js';
import type { CrioState } from '../crio-state.ts';
import type { DoubleOptions } from '../options.ts';
import type { Containers, FixtureContainer } from './containers.ts';
import { CriError } from './cri-error.ts';

interface Filter {
  readonly id?: string;
  readonly state?: { readonly state?: string } | null;
  readonly pod_sandbox_id?: string;
  readonly label_selector?: Readonly<Record<string, string>>;
}

interface RuntimeRequest {
  readonly filter?: Filter | null;
  readonly container_id?: string;
  readonly verbose?: boolean;
}

type Handler = (request: RuntimeRequest) => Promise<object>;

/**
 * The calls of `runtime.v1.RuntimeService` that the double knows; gRPC answers Unimplemented for
 * others.
 */
export type RuntimeService = Readonly<
  Record<'Version' | 'Status' | 'ListPodSandbox' | 'ListContainers' | 'ContainerStatus' | 'RemoveContainer', Handler>
>;

/** RuntimeService over the fixture of containers. */
export function createRuntimeService(deps: {
  options: DoubleOptions;
  state: CrioState;
  containers: Containers;
}): RuntimeService {
  const { options, state, containers } = deps;
  const conditions = ['RuntimeReady', 'NetworkReady'].map((type) => ({ type, status: true, reason: '', message: '' }));
  const byId = (id: string) => containers.list().find((container) => id !== '' && container.id.startsWith(id));
  return {
    Version: async () => ({
      version: '0.1.0',
      runtime_name: 'cri-o',
      runtime_version: options.version,
      runtime_api_version: 'v1',
    }),
    Status: async ({ verbose }) => ({
      status: { conditions },
      ...(verbose && { info: { config: JSON.stringify({ sandboxImage: state.configuration.pauseImage }) } }),
    }),
    ListPodSandbox: async ({ filter }) => ({
      items: containers.sandboxes().filter((sandbox) => matches(sandbox, filter, 'SANDBOX_READY')),
    }),
    ListContainers: async ({ filter }) => ({
      containers: containers
        .list()
        .filter((container) => matches(container, filter, 'CONTAINER_CREATED') && inSandbox(container, filter)),
    }),
    ContainerStatus: async ({ container_id = '' }) => {
      const container = byId(container_id);
      if (container !== undefined) return { status: container };
      const missing = `container with ID starting with ${container_id} not found: ID does not exist`;
      const why = container_id === '' ? 'container ID should not be empty' : missing;
      throw new CriError(grpcStatus.NOT_FOUND, `could not find container "${container_id}": ${why}`);
    },
    RemoveContainer: async ({ container_id = '' }) => {
      const container = byId(container_id);
      if (container !== undefined) containers.remove(container.id);
      return {};
    },
  };
}

function matches(
  item: { readonly id: string; readonly state?: string; readonly labels?: Readonly<Record<string, string>> },
  filter: Filter | null | undefined,
  defaultState: string,
): boolean {
  if (!item.id.startsWith(filter?.id ?? '')) return false;
  if (filter?.state && (filter.state.state ?? defaultState) !== (item.state ?? defaultState)) return false;
  return Object.entries(filter?.label_selector ?? {}).every(([key, value]) => item.labels?.[key] === value);
}

function inSandbox(container: FixtureContainer, filter: Filter | null | undefined): boolean {
  return (container.pod_sandbox_id ?? '').startsWith(filter?.pod_sandbox_id ?? '');
}

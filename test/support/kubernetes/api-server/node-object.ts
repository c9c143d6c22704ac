/** Who set a field, and how (`ManagedFieldsEntry` of meta/v1). */
export interface ManagedFields {
  readonly manager: string;
  readonly operation: 'Apply' | 'Update';
  readonly apiVersion: 'v1';
  readonly time: string;
  readonly fieldsType: 'FieldsV1';
  readonly fieldsV1: object;
}

/** A condition of a Node. */
export interface NodeCondition {
  readonly type: string;
  readonly status: string;
  readonly [member: string]: unknown;
}

/** A Node, as far as it matters here. */
export interface NodeObject {
  readonly kind: 'Node';
  readonly apiVersion: 'v1';
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly creationTimestamp: string;
    readonly resourceVersion: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations: Readonly<Record<string, string>>;
    readonly managedFields: readonly ManagedFields[];
  };
  readonly spec: { readonly taints?: unknown; readonly unschedulable?: boolean };
  readonly status: {
    readonly addresses: readonly { readonly type: string; readonly address: string }[];
    readonly conditions: readonly NodeCondition[];
    readonly nodeInfo: Readonly<Record<string, string>>;
  };
}

/**
 * A new Node as its kubelet makes it. @param address absent where a cloud provider sets it later
 */
export function newNode(name: string, address?: string): NodeObject {
  const labels = { 'kubernetes.io/hostname': name, 'kubernetes.io/os': 'linux' };
  return {
    kind: 'Node',
    apiVersion: 'v1',
    metadata: {
      name,
      uid: `uid-of-${name}`,
      creationTimestamp: '2026-01-01T00:00:00Z',
      resourceVersion: '0',
      labels,
      annotations: {},
      managedFields: [],
    },
    spec: {},
    status: {
      addresses: addressesOf(name, address),
      conditions: [
        {
          type: 'Ready',
          status: 'True',
          reason: 'KubeletReady',
          message: 'kubelet is posting ready status',
          lastHeartbeatTime: '2026-01-01T00:00:00Z',
          lastTransitionTime: '2026-01-01T00:00:00Z',
        },
      ],
      nodeInfo: { kubeletVersion: 'v1.36.2', operatingSystem: 'linux', architecture: 'amd64' },
    },
  };
}

/** The addresses of a Node. */
export function addressesOf(name: string, address: string | undefined): NodeObject['status']['addresses'] {
  const internal = address === undefined ? [] : [{ type: 'InternalIP', address }];
  return [{ type: 'Hostname', address: name }, ...internal];
}

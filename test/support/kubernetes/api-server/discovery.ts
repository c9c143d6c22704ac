const resource = (name: string, singularName: string, kind: string, namespaced: boolean, verbs: readonly string[]) => ({
  name,
  singularName,
  namespaced,
  kind,
  verbs,
});

const RBAC = 'rbac.authorization.k8s.io';
const RBAC_KINDS = { clusterroles: 'ClusterRole', clusterrolebindings: 'ClusterRoleBinding' } as const;

/**
 * Whether the server checks the fields of an object: kubectl looks for a parameter of its patch.
 */
const patched = (group: string, kind: string) => ({
  patch: {
    parameters: [{ name: 'fieldValidation', in: 'query', schema: { type: 'string' } }],
    responses: {},
    'x-kubernetes-group-version-kind': { group, version: 'v1', kind },
  },
});

const openapi = (paths: object) => ({ openapi: '3.0.0', info: { title: 'Kubernetes', version: 'v1.36.2' }, paths });

const rbacPaths = Object.fromEntries(
  Object.entries(RBAC_KINDS).map(([resource, kind]) => [`/apis/${RBAC}/v1/${resource}/{name}`, patched(RBAC, kind)]),
);

const READ = ['get', 'list', 'watch'];

/** What kubectl asks before anything else, by path. */
export const discovery: Readonly<Record<string, object>> = {
  '/version': { major: '1', minor: '36', gitVersion: 'v1.36.2' },
  '/api': { kind: 'APIVersions', versions: ['v1'], serverAddressByClientCIDRs: [] },
  '/apis': {
    kind: 'APIGroupList',
    apiVersion: 'v1',
    groups: [
      {
        name: RBAC,
        versions: [{ groupVersion: `${RBAC}/v1`, version: 'v1' }],
        preferredVersion: { groupVersion: `${RBAC}/v1`, version: 'v1' },
      },
    ],
  },
  [`/apis/${RBAC}/v1`]: {
    kind: 'APIResourceList',
    groupVersion: `${RBAC}/v1`,
    resources: Object.entries(RBAC_KINDS).map(([name, kind]) =>
      resource(name, kind.toLowerCase(), kind, false, ['get', 'create']),
    ),
  },
  '/openapi/v3': {
    paths: {
      'api/v1': { serverRelativeURL: '/openapi/v3/api/v1' },
      [`apis/${RBAC}/v1`]: { serverRelativeURL: `/openapi/v3/apis/${RBAC}/v1` },
    },
  },
  '/openapi/v3/api/v1': openapi({ '/api/v1/nodes/{name}': patched('', 'Node') }),
  [`/openapi/v3/apis/${RBAC}/v1`]: openapi(rbacPaths),
  '/api/v1': {
    kind: 'APIResourceList',
    groupVersion: 'v1',
    resources: [
      resource('nodes', 'node', 'Node', false, [...READ, 'patch', 'delete']),
      resource('events', 'event', 'Event', true, [...READ, 'create']),
      resource('pods', 'pod', 'Pod', true, READ),
    ],
  },
};

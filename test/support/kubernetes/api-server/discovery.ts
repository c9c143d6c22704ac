const resource = (name: string, singularName: string, kind: string, namespaced: boolean, verbs: readonly string[]) => ({
  name,
  singularName,
  namespaced,
  kind,
  verbs,
});

const READ = ['get', 'list', 'watch'];

/** What kubectl asks before anything else, by path. */
export const discovery: Readonly<Record<string, object>> = {
  '/version': { major: '1', minor: '36', gitVersion: 'v1.36.2' },
  '/api': { kind: 'APIVersions', versions: ['v1'], serverAddressByClientCIDRs: [] },
  '/apis': { kind: 'APIGroupList', apiVersion: 'v1', groups: [] },
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

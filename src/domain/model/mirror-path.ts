/**
 * The path of a repository on our registry. `quay.io/coreos/etcd` stays as it is.
 * `localhost:5000/app` becomes `localhost__5000/app`, because a repository name can't contain a
 * colon, and `[fd00::1]:5000/app` becomes `fd00_z_1__5000/app`. A host name contains no underscore,
 * so two repositories never share a path.
 */
export function mirrorPathOf(repository: string): string {
  const slash = repository.indexOf('/');
  if (slash < 0) return repository;
  const registry = repository.slice(0, slash).toLowerCase();
  const [, groups, port = ''] = /^\[(.*)\](.*)$/.exec(registry) ?? [];
  const host = groups?.split(':').map((group) => group || 'z');
  const name = host === undefined ? registry : `${host.join('_')}${port}`;
  return name.replace(':', '__') + repository.slice(slash);
}

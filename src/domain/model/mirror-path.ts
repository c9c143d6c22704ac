/**
 * The path of a repository on our registry. `quay.io/coreos/etcd` stays as it is.
 * `localhost:5000/app` becomes `localhost__5000/app`, because a repository name can't contain a
 * colon. A host name can't contain two underscores, so two repositories never share a path.
 */
export function mirrorPathOf(repository: string): string {
  const slash = repository.indexOf('/');
  if (slash < 0) return repository;
  return repository.slice(0, slash).toLowerCase().replace(':', '__') + repository.slice(slash);
}

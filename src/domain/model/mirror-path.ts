/**
 * The path under which a repository is mirrored on our registry: `quay.io/coreos/etcd` stays as it
 * is, the port of `localhost:5000/app` turns into `localhost__5000/app`, since a colon can't stand
 * in a repository name. Two underscores can't stand in a host name, so two repositories never share
 * a path.
 */
export function mirrorPathOf(repository: string): string {
  const slash = repository.indexOf('/');
  if (slash < 0) return repository;
  return repository.slice(0, slash).toLowerCase().replace(':', '__') + repository.slice(slash);
}

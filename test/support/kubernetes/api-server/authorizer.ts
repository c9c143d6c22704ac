import { parseAllDocuments } from 'yaml';
import { forbid } from './status.ts';

/** Who asks: the subject of a client certificate. */
export interface User {
  readonly name: string;
  readonly groups: readonly string[];
}

/** What is asked for, as an authorizer sees it. */
export interface Attributes {
  readonly verb: 'get' | 'list' | 'watch' | 'patch' | 'create' | 'delete' | 'update';
  readonly group: string;
  /** `nodes`, or with its subresource `nodes/status`. */
  readonly resource: string;
  readonly namespace?: string;
  /** Of one object; of a list whose field selector names one. */
  readonly name?: string;
}

interface Rule {
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  readonly verbs?: readonly string[];
}

interface Manifest {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata?: { readonly name?: string };
  readonly rules?: readonly Rule[];
  readonly roleRef?: { readonly apiGroup?: string; readonly kind?: string; readonly name?: string };
  readonly subjects?: readonly { readonly apiGroup?: string; readonly kind?: string; readonly name?: string }[];
}

const RBAC = 'rbac.authorization.k8s.io';

/** The node that a user is the kubelet of (Kubernetes, "Using Node Authorization"). */
export function nodeOfUser({ name, groups }: User): string | undefined {
  const prefix = 'system:node:';
  return groups.includes('system:nodes') && name.startsWith(prefix) ? name.slice(prefix.length) : undefined;
}

/** What `ClusterRole`s and `ClusterRoleBinding`s in YAML allow, besides the node authorizer. */
export function createAuthorizer() {
  const manifests: Manifest[] = [];
  return {
    /** Adds manifests. @throws Error for a kind that it does not know */
    apply: (yaml: string): void => {
      for (const document of parseAllDocuments(yaml)) {
        const manifest = document.toJS() as Manifest;
        const isKnown = manifest.kind === 'ClusterRole' || manifest.kind === 'ClusterRoleBinding';
        if (!isKnown || manifest.apiVersion !== `${RBAC}/v1`) throw new Error(`not known here: ${document.toString()}`);
        manifests.push(manifest);
      }
    },
    /** Whether there is a manifest of a kind, such as `ClusterRole`, with a name. */
    has: (kind: string, name: string): boolean =>
      manifests.some((manifest) => manifest.kind === kind && manifest.metadata?.name === name),
    /** Takes all of them away. */
    clear: (): void => {
      manifests.length = 0;
    },
    /** @throws Refusal 403 */
    check: (user: User, attributes: Attributes): void => {
      if (user.groups.includes('system:masters') || isOwn(user, attributes)) return;
      if (boundRules(manifests, user).some((rule) => allows(rule, attributes))) return;
      const { verb, resource, group, name } = attributes;
      const what = name === undefined ? resource : `${resource} "${name}"`;
      const why = `User "${user.name}" cannot ${verb} resource "${resource}" in API group "${group}" at the cluster scope`;
      const node = nodeOfUser(user);
      const read = name === undefined ? 'all nodes' : `'${name}'`;
      const more =
        resource === 'nodes' && node !== undefined
          ? `: node '${node}' cannot read ${read}, only its own Node object`
          : '';
      forbid(what, `${why}${more}`);
    },
  };
}

/** What the node authorizer lets a kubelet do, as far as it matters here; from 1.32 on. */
function isOwn(user: User, { verb, resource, group, name, namespace }: Attributes): boolean {
  const node = nodeOfUser(user);
  if (node === undefined) return false;
  if (resource === 'nodes' && ['get', 'list', 'watch'].includes(verb)) return name === node;
  if (resource === 'nodes') return ['patch', 'update', 'create'].includes(verb);
  if (resource === 'nodes/status') return ['patch', 'update'].includes(verb);
  if (resource === 'events') return ['create', 'patch', 'update'].includes(verb);
  if (resource === 'leases') return namespace === 'kube-node-lease' && name === node && group === 'coordination.k8s.io';
  return false;
}

function boundRules(manifests: readonly Manifest[], user: User): readonly Rule[] {
  const bindings = manifests.filter(({ kind, subjects = [] }) => {
    const names = subjects
      .filter(({ kind: of, apiGroup }) => of === 'Group' && apiGroup === RBAC)
      .map(({ name }) => name);
    return kind === 'ClusterRoleBinding' && names.some((name) => name !== undefined && user.groups.includes(name));
  });
  const roles = new Set(bindings.flatMap(({ roleRef }) => (roleRef?.kind === 'ClusterRole' ? [roleRef.name] : [])));
  return manifests
    .filter(({ kind, metadata }) => kind === 'ClusterRole' && roles.has(metadata?.name))
    .flatMap(({ rules = [] }) => rules);
}

function allows({ apiGroups = [], resources = [], verbs = [] }: Rule, { verb, group, resource }: Attributes): boolean {
  return apiGroups.includes(group) && resources.includes(resource) && verbs.includes(verb);
}

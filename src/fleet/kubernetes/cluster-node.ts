import { parseStatusAnnotation } from '../../domain/fleet/node-status.ts';
import type { ClusterNode } from '../cluster.ts';
import { SERVES_ANNOTATION, STATUS_ANNOTATION } from '../publish/names.ts';
import { parseServes } from '../publish/serves.ts';

/** The part of the metadata of a Node that tells about stickpin. */
export interface NodeAnnotations {
  readonly name: string;
  readonly annotations?: Readonly<Record<string, string>>;
}

/**
 * What the metadata of a Node tells. An annotation that can't be read counts as absent.
 *
 * @param onRefused called with an address at which the node is not asked; see {@link parseServes}
 */
export function clusterNodeOf(
  { name, annotations = {} }: NodeAnnotations,
  onRefused: (address: string) => void = () => undefined,
): ClusterNode {
  const status = parseStatusAnnotation(annotations[STATUS_ANNOTATION] ?? '');
  const serves = parseServes(annotations[SERVES_ANNOTATION] ?? '');
  if (serves?.refused !== undefined) onRefused(serves.refused);
  return {
    name,
    ...(serves?.endpoint !== undefined && { endpoint: serves.endpoint }),
    serves: serves?.bundles ?? [],
    ...(status !== undefined && { status }),
  };
}

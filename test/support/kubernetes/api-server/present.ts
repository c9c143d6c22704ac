import type { NodeObject } from './node-object.ts';

/** The form in which a client takes objects (`Accept`). */
export type Form = 'full' | 'metadata' | 'table';

/**
 * The first form of an `Accept` header that this server has; undefined for none, which is answered
 * with 406.
 */
export function formOf(accept: string | undefined, isList: boolean): Form | undefined {
  for (const choice of (accept ?? '*/*').split(',')) {
    const [type = '', ...parameters] = choice.split(';').map((part) => part.trim());
    if (!['application/json', 'application/*', '*/*'].includes(type)) continue;
    const as = parameters.find((parameter) => parameter.startsWith('as='))?.slice(3);
    const isMeta = parameters.includes('g=meta.k8s.io') && parameters.includes('v=v1');
    if (as === undefined) return 'full';
    if (isMeta && as === (isList ? 'PartialObjectMetadataList' : 'PartialObjectMetadata')) return 'metadata';
    if (isMeta && as === 'Table') return 'table';
  }
  return undefined;
}

/** A Node in a form. */
export function present(node: NodeObject, form: Form): object {
  if (form === 'full') return node;
  return form === 'metadata' ? metadataOf(node) : tableOf([node], node.metadata.resourceVersion);
}

/** A list of Nodes in a form. */
export function presentList(nodes: readonly NodeObject[], metadata: { resourceVersion: string }, form: Form): object {
  if (form === 'table') return tableOf(nodes, metadata.resourceVersion);
  if (form === 'full') return { kind: 'NodeList', apiVersion: 'v1', metadata, items: nodes };
  const items = nodes.map(metadataOf);
  return { kind: 'PartialObjectMetadataList', apiVersion: 'meta.k8s.io/v1', metadata, items };
}

function metadataOf({ metadata }: NodeObject): object {
  return { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata };
}

function tableOf(nodes: readonly NodeObject[], resourceVersion: string): object {
  const column = (name: string) => ({
    name,
    type: 'string',
    format: name === 'Name' ? 'name' : '',
    description: name,
    priority: 0,
  });
  return {
    kind: 'Table',
    apiVersion: 'meta.k8s.io/v1',
    metadata: { resourceVersion },
    columnDefinitions: ['Name', 'Status', 'Version'].map(column),
    rows: nodes.map((node) => ({
      cells: [node.metadata.name, 'Ready', node.status.nodeInfo.kubeletVersion],
      object: metadataOf(node),
    })),
  };
}

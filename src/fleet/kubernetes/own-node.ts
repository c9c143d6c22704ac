import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { LABEL_PREFIX, type NodeStatus, parseStatusAnnotation } from '../../domain/fleet/node-status.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { readIfPresent, replaceFile } from '../../platform/files/durable-file.ts';
import type { Log } from '../../platform/log.ts';
import type { NodeEvent } from '../publish/events.ts';
import { type Health, STATUS_ANNOTATION } from '../publish/node-status.ts';
import { Trouble } from '../trouble.ts';
import { isKubernetesError, type KubernetesApi } from './api.ts';
import { appliedKeys, nodePath, type OwnFields, type OwnNode, readNode } from './objects.ts';

/** The field manager, and the component of events. */
const MANAGER = 'stickpin';
const AS_METADATA = 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1';

/** @throws KubernetesError */
export async function getNode(api: KubernetesApi, name: string, signal: AbortSignal): Promise<OwnNode> {
  return readNode(await api.send({ method: 'GET', path: nodePath(name) }, signal));
}

/** The status that this node wrote last; undefined when none can be read. */
export function writtenStatus({ metadata }: OwnNode): NodeStatus | undefined {
  return parseStatusAnnotation(metadata.annotations?.[STATUS_ANNOTATION] ?? '');
}

/**
 * Whether the Node has all of `wanted`, nothing else that stickpin applied, and no other label of a
 * release. Other keys of others under the same prefix stay theirs.
 */
export function hasFields({ metadata }: OwnNode, wanted: OwnFields): boolean {
  if (foreignLabels(metadata.labels ?? {}, wanted.labels).length > 0) return false;
  return (['annotations', 'labels'] as const).every((kind) => {
    const isPresent = Object.entries(wanted[kind]).every(([key, value]) => metadata[kind]?.[key] === value);
    const applied = [...appliedKeys(metadata, MANAGER, kind)];
    return isPresent && applied.every((key) => Object.hasOwn(wanted[kind], key));
  });
}

const RELEASE_LABEL = new RegExp(`^${LABEL_PREFIX.replaceAll('.', '\\.')}(?:release|ready)-`);

/** Labels of releases that another program set: tools would take them for reports of this node. */
export function foreignLabels(labels: OwnFields['labels'], wanted: OwnFields['labels']): readonly string[] {
  return Object.keys(labels).filter((key) => RELEASE_LABEL.test(key) && !Object.hasOwn(wanted, key));
}

/**
 * An apply removes only what its manager alone has set, so they get another value first.
 *
 * @throws KubernetesError
 */
export async function removeForeignLabels(
  api: KubernetesApi,
  node: OwnNode,
  fields: OwnFields,
  signal: AbortSignal,
): Promise<void> {
  const has = node.metadata.labels ?? {};
  const taken = foreignLabels(has, fields.labels).map((key) => [key, has[key] === '' ? 'foreign' : '']);
  await applyFields(api, node, { ...fields, labels: { ...fields.labels, ...Object.fromEntries(taken) } }, signal);
  await applyFields(api, node, fields, signal);
}

/**
 * Server-side apply of annotations and labels: what is left out goes away. An apply would make a
 * missing Node, so the uid is named: then the server answers 409.
 *
 * @throws KubernetesError
 */
export async function applyFields(
  api: KubernetesApi,
  { metadata: { name, uid } }: OwnNode,
  { annotations, labels }: OwnFields,
  signal: AbortSignal,
): Promise<void> {
  const request = {
    method: 'PATCH',
    path: nodePath(name),
    query: { fieldManager: MANAGER, force: 'true' },
    contentType: 'application/apply-patch+yaml',
    accept: AS_METADATA,
    body: { apiVersion: 'v1', kind: 'Node', metadata: { name, uid, ...filled({ annotations, labels }) } },
  } as const;
  await api.send(request, signal);
}

/** Empty members would stay among the managed fields. */
function filled(fields: OwnFields): Partial<OwnFields> {
  return Object.fromEntries(Object.entries(fields).filter(([, values]) => Object.keys(values).length > 0));
}

export function hasHealth(node: OwnNode, { type, ...health }: Health): boolean {
  const condition = node.status.conditions?.find((one) => one.type === type);
  const { status, reason, message } = health;
  return condition?.status === status && condition.reason === reason && condition.message === message;
}

/**
 * The transition time changes with the status only.
 *
 * @param now milliseconds since the epoch
 * @throws KubernetesError
 */
export async function patchHealth(
  api: KubernetesApi,
  node: OwnNode,
  health: Health,
  now: number,
  signal: AbortSignal,
): Promise<void> {
  const before = node.status.conditions?.find(({ type }) => type === health.type);
  const isSame = before?.status === health.status && Boolean(before.lastTransitionTime);
  const time = secondsText(now);
  const lastTransitionTime = isSame ? before?.lastTransitionTime : time;
  await patchConditions(api, node.metadata.name, { ...health, lastHeartbeatTime: time, lastTransitionTime }, signal);
}

/** @throws KubernetesError */
export async function deleteHealth(
  api: KubernetesApi,
  name: string,
  type: Health['type'],
  signal: AbortSignal,
): Promise<void> {
  await patchConditions(api, name, { $patch: 'delete', type }, signal);
}

/** Merged by `type`: conditions of others stay. */
async function patchConditions(
  api: KubernetesApi,
  name: string,
  condition: object,
  signal: AbortSignal,
): Promise<void> {
  const request = {
    method: 'PATCH',
    path: `${nodePath(name)}/status`,
    query: { fieldManager: MANAGER },
    contentType: 'application/strategic-merge-patch+json',
    accept: AS_METADATA,
    body: { status: { conditions: [condition] } },
  } as const;
  await api.send(request, signal);
}

/**
 * Makes an `Event` of core/v1. An existing one was reported before and stays.
 *
 * @param at milliseconds since the epoch
 * @throws KubernetesError
 */
export async function createEvent(
  api: KubernetesApi,
  { metadata: { name, uid } }: OwnNode,
  { type, reason, message, id }: NodeEvent,
  at: number,
  signal: AbortSignal,
): Promise<void> {
  const time = secondsText(at);
  const body = {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name: `${name.slice(0, 200).replace(/[^a-z0-9]+$/, '')}.${id}`, namespace: 'default' },
    involvedObject: { apiVersion: 'v1', kind: 'Node', name, uid: uid ?? '' },
    type,
    reason,
    message,
    count: 1,
    firstTimestamp: time,
    lastTimestamp: time,
    source: { component: MANAGER, host: name },
    reportingComponent: MANAGER,
    reportingInstance: name,
  };
  const path = '/api/v1/namespaces/default/events';
  try {
    await api.send({ method: 'POST', path, query: { fieldManager: MANAGER }, body }, signal);
  } catch (error) {
    if (!isKubernetesError(error, 'kubernetes/conflict')) throw error;
  }
}

/** RFC 3339 in seconds, as in Kubernetes. */
function secondsText(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

/**
 * Names the Node that stickpin wrote to, from before the first write until all of it was removed.
 * So the removal can wait for an API server.
 */
export class PublishedMark {
  private readonly path: string;
  private readonly unwritten: Trouble;

  /** @param stateDir the `StateDirectory=` of the fleet process */
  constructor(stateDir: string, log: Log) {
    this.path = join(stateDir, 'published');
    this.unwritten = new Trouble(log);
  }

  /** Undefined when nothing has to be removed. */
  async read(): Promise<string | undefined> {
    const text = await readIfPresent(this.path);
    return text?.trim() || undefined;
  }

  /** A failure is one line in the log. */
  async set(node: string, signal: AbortSignal): Promise<void> {
    const { path, unwritten } = this;
    try {
      await replaceFile({ path, mode: 0o600 }, `${node}\n`, signal);
      unwritten.end(`${path} is written now`);
    } catch (error) {
      signal.throwIfAborted();
      const after = 'a removal of stickpin may leave its annotations and labels on the own Node';
      unwritten.begin(`${path} can't be written: ${reasonOf(error)}; ${after}`, error);
    }
  }

  clear(): Promise<void> {
    return rm(this.path, { force: true });
  }
}

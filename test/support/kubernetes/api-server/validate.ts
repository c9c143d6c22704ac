import type { NodeObject } from './node-object.ts';
import { invalid } from './status.ts';

const NAME = /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/;
const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const ANNOTATION_BYTES = 256 * 1024;

/** `ValidateObjectMeta` for labels and annotations. @throws Refusal 422 */
export function validateMetadata({ metadata }: NodeObject): void {
  const what = `Node "${metadata.name}"`;
  for (const [key, value] of Object.entries(metadata.labels)) {
    if (!isQualifiedName(key))
      invalid(what, 'metadata.labels', `Invalid value: "${key}": name part must consist of alphanumeric characters`);
    if (value !== '' && (value.length > 63 || !NAME.test(value))) {
      invalid(
        what,
        'metadata.labels',
        `Invalid value: "${value}": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.'`,
      );
    }
  }
  let sizeBytes = 0;
  for (const [key, value] of Object.entries(metadata.annotations)) {
    if (!isQualifiedName(key.toLowerCase())) invalid(what, 'metadata.annotations', `Invalid value: "${key}"`);
    if (typeof value !== 'string') invalid(what, 'metadata.annotations', 'must be a string');
    sizeBytes += Buffer.byteLength(key) + Buffer.byteLength(value);
  }
  if (sizeBytes > ANNOTATION_BYTES)
    invalid(what, 'metadata.annotations', 'Too long: may not be more than 262144 bytes');
}

function isQualifiedName(key: string): boolean {
  const [first = '', second, ...more] = key.split('/');
  if (more.length > 0) return false;
  const [prefix, name] = second === undefined ? [undefined, first] : [first, second];
  return (prefix === undefined || isSubdomain(prefix)) && name.length <= 63 && NAME.test(name);
}

function isSubdomain(text: string): boolean {
  return text.length <= 253 && SUBDOMAIN.test(text);
}

/** An `Event` of core/v1, as far as it is validated. */
export interface EventObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly involvedObject: Readonly<Record<string, string>>;
  readonly reason: string;
  readonly message: string;
  readonly type: string;
  readonly [member: string]: unknown;
}

/** `ValidateEvent` of core/v1, without the new form. @throws Refusal 422 or 400 */
export function validateEvent(event: EventObject, namespace: string): void {
  const { metadata, involvedObject } = event;
  const what = `Event "${metadata?.name}"`;
  if (event.apiVersion !== 'v1' || event.kind !== 'Event') invalid(what, 'kind', 'must be Event of v1');
  if (!isSubdomain(metadata?.name ?? '')) invalid(what, 'metadata.name', `Invalid value: "${metadata?.name}"`);
  if ((metadata.namespace ?? namespace) !== namespace) invalid(what, 'metadata.namespace', 'does not match the URL');
  if ((involvedObject?.namespace ?? '') === '' && namespace !== 'default') {
    invalid(what, 'involvedObject.namespace', 'does not match event.namespace');
  }
  if (!involvedObject?.kind) invalid(what, 'involvedObject.kind', 'Required value');
  if (Buffer.byteLength(event.message) > 1_024) invalid(what, 'message', 'can have at most 1024 characters');
  if (!['Normal', 'Warning'].includes(event.type)) invalid(what, 'type', 'must be Normal or Warning');
}

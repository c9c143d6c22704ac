import { join } from 'node:path';
import type { Attachment, BundleTotals, Contents, Payload } from '../../../domain/model/bundle.ts';
import type { BundleId, Digest } from '../../../domain/model/digest.ts';
import { writeTreeFile } from '../../../platform/files/durable-file.ts';
import { bundleError } from '../../bundle-error.ts';
import { formatEnvelope } from '../../format/dsse.ts';
import type { SigningKey } from '../../keys/signing.ts';
import { limits } from '../../limits.ts';
import { bundleIdOf } from '../../verify/verify-envelope.ts';
import type { CreateOptions } from '../create-options.ts';
import type { Plan } from '../images/plan-images.ts';
import { jsonBytes, type WrittenTree } from '../write-bundle.ts';
import { payloadWarnings } from './payload-warnings.ts';
import { signatureOver, unsignedEnvelope, withSignature } from './sign-envelope.ts';

/** The payload of a new bundle. Of `warnings` it holds as many as it may. */
export function payloadOf(
  options: Omit<CreateOptions, 'update' | 'annotations'> & Pick<Payload, 'update' | 'annotations'>,
  tree: Pick<WrittenTree, 'indexPointer' | 'contentsPointer'>,
  totals: BundleTotals,
  attachments: readonly Attachment[],
  warnings: readonly string[],
): Payload {
  return {
    schemaVersion: 1,
    name: options.name,
    version: options.version,
    ...(options.versionScheme !== undefined && { versionScheme: options.versionScheme }),
    arch: options.arch,
    sequence: options.sequence,
    created: options.created,
    ...(options.expires !== undefined && { expires: options.expires }),
    index: tree.indexPointer,
    contents: tree.contentsPointer,
    totals,
    ...(options.update !== undefined && { update: options.update }),
    ...(options.schedule !== undefined && { schedule: options.schedule }),
    ...(options.advisories !== undefined && { advisories: options.advisories }),
    ...(options.trust !== undefined && { trust: options.trust }),
    ...(attachments.length > 0 && { attachments }),
    ...(warnings.length > 0 && { warnings: payloadWarnings(warnings) }),
    ...(options.annotations !== undefined && { annotations: options.annotations }),
  };
}

/**
 * The sums of a new bundle. An attachment is counted as an attachment only, even if it is a blob of
 * an image too.
 */
export function totalsOf(plan: Plan, { layers, images }: Contents, attachments: readonly Attachment[]): BundleTotals {
  const blobs = new Map<Digest, number>(layers.map((layer) => [layer.digest, layer.sizeBytes]));
  for (const [digest, bytes] of plan.documents) blobs.set(digest, bytes.length);
  for (const { digest } of attachments) blobs.delete(digest);
  const sizes = [...blobs.values()];
  return {
    images: images.length,
    blobs: sizes.length,
    sizeBytes: sizes.reduce((sum, size) => sum + size, 0),
    diskBytes: layers.reduce((sum, layer) => sum + layer.diskBytes, 0),
    inodes: layers.reduce((sum, layer) => sum + layer.inodes, 0),
  };
}

/**
 * Signs the payload with all keys and writes `bundle.dsse.json`. @throws AppError `bundle/option`
 * (`reject`) when the payload is too large; `bundle/signer`
 */
export async function writeEnvelope(
  directory: string,
  payload: Payload,
  keys: readonly SigningKey[],
  signal: AbortSignal,
): Promise<BundleId> {
  const bytes = jsonBytes(payload);
  if (bytes.length > limits.payloadBytes) {
    throw bundleError(
      'bundle/option',
      `the payload would have ${bytes.length} bytes, and ${limits.payloadBytes} are allowed`,
    );
  }
  let envelope = unsignedEnvelope(bytes);
  for (const key of keys) envelope = withSignature(envelope, await signatureOver(envelope, key, signal));
  await writeTreeFile(join(directory, 'bundle.dsse.json'), formatEnvelope(envelope));
  return bundleIdOf(bytes);
}

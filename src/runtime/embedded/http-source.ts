import { Agent, get, type IncomingMessage } from 'node:http';
import { manifestMediaTypes } from '../../bundle/format/oci-schema.ts';
import { limits } from '../../bundle/limits.ts';
import type { Digest } from '../../domain/model/digest.ts';
import { mirrorPathOf, type Reference } from '../../domain/model/reference.ts';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { responseTo } from '../../platform/http/response-to.ts';
import { pullError } from '../cri/runtime-error.ts';

/** A manifest or index as received. Its digest is not checked yet. */
interface RawManifest {
  readonly mediaType: string;
  readonly bytes: Buffer;
}

/** A blob from `startByte` on. `startByte` is 0 when the registry doesn't support ranges. */
interface BlobStream {
  readonly startByte: number;
  readonly chunks: AsyncIterable<Buffer>;
}

/**
 * A registry over plain HTTP (OCI distribution-spec 1.1, pull). Throws AppError with a
 * `PullErrorCode`. `runtime/pull-failed` may be temporary.
 */
export interface HttpSource {
  manifest(reference: Reference, tagOrDigest: string, signal: AbortSignal): Promise<RawManifest>;
  blob(reference: Reference, digest: Digest, startByte: number, signal: AbortSignal): Promise<BlobStream>;
  close(): void;
}

/** The registry below `baseUrl` (`http://127.0.0.1:5000/v2/<token>`). */
export function createHttpSource(baseUrl: string): HttpSource {
  const agent = new Agent({ keepAlive: true });
  const url = ({ registry, repository }: Reference, tail: string) =>
    `${baseUrl}/${mirrorPathOf(repository)}/${tail}?ns=${encodeURIComponent(registry)}`;
  const open = (address: string, headers: Record<string, string>, signal: AbortSignal) =>
    responseTo(
      get(address, { agent, headers: { ...headers, 'user-agent': 'stickpin/embedded' }, signal }),
      signal,
    ).catch((error: unknown) => {
      throw transferError(address, error, signal);
    });
  return {
    close: () => agent.destroy(),
    manifest: async (reference, tagOrDigest, signal) => {
      const address = url(reference, `manifests/${tagOrDigest}`);
      const response = await open(address, { accept: [...manifestMediaTypes].join(', ') }, signal);
      refuseStatus(response, address, [200]);
      const bytes = Buffer.concat(await collect(response, address, signal));
      return { mediaType: mediaTypeOf(response), bytes };
    },
    blob: async (reference, digest, startByte, signal) => {
      const address = url(reference, `blobs/${digest}`);
      const range: Record<string, string> = startByte === 0 ? {} : { range: `bytes=${startByte}-` };
      const response = await open(address, range, signal);
      refuseStatus(response, address, [200, 206]);
      const given = response.statusCode === 206 ? rangeStart(response.headers['content-range']) : 0;
      if (given === undefined || given > startByte) {
        response.destroy();
        throw pullError('runtime/pull-failed', `${address} answered another range than asked for`);
      }
      return { startByte: given, chunks: converted(response, address, signal) };
    },
  };
}

/** Chunks of the body. A broken transfer throws an AppError. */
async function* converted(response: IncomingMessage, address: string, signal: AbortSignal): AsyncIterable<Buffer> {
  try {
    for await (const chunk of response) yield chunk as Buffer;
  } catch (error) {
    throw transferError(address, error, signal);
  }
}

async function collect(response: IncomingMessage, address: string, signal: AbortSignal): Promise<Buffer[]> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of converted(response, address, signal)) {
    sizeBytes += chunk.length;
    if (sizeBytes > limits.manifestBytes)
      throw pullError('runtime/digest-mismatch', `${address} is larger than a manifest may be`);
    chunks.push(chunk);
  }
  return chunks;
}

function refuseStatus(response: IncomingMessage, address: string, accepted: readonly number[]): void {
  const { statusCode = 0 } = response;
  if (accepted.includes(statusCode)) return;
  response.resume(); // so that the connection can be used again
  throw pullError(
    statusCode === 404 ? 'runtime/not-found' : 'runtime/pull-failed',
    `${address} answered ${statusCode}`,
  );
}

function rangeStart(contentRange: string | undefined): number | undefined {
  const start = /^bytes (\d+)-/.exec(contentRange ?? '')?.[1];
  return start === undefined ? undefined : Number(start);
}

function mediaTypeOf(response: IncomingMessage): string {
  return (response.headers['content-type'] ?? '').split(';', 1)[0]?.trim() ?? '';
}

function transferError(address: string, error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return pullError('runtime/cancelled', `Transfer of ${address} was cancelled`, error);
  const reason = systemCodeOf(error) ?? reasonOf(error);
  return pullError('runtime/pull-failed', `Transfer of ${address} broke: ${reason}`, error);
}

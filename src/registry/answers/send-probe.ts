import type { ServerResponse } from 'node:http';
import { mediaTypes } from '../../bundle/format/oci-schema.ts';
import type { Digest } from '../../domain/model/digest.ts';
import { closeSignal } from '../../platform/http/close-signal.ts';
import { respondError } from '../respond.ts';
import type { Exchange, PullApi } from './exchange.ts';

/**
 * How long the configuration of a probe is not answered. The daemon aborts the pull meanwhile.
 * containerd would ask the image's own registry for a configuration that is answered 404.
 */
const CONFIG_HOLD_MS = 3_000;

/** Sends the manifest of a probe. */
export function sendProbeManifest(bytes: Buffer, digest: string, { request, response }: Exchange): void {
  response.setHeader('docker-content-digest', digest);
  response.writeHead(200, { 'content-type': mediaTypes.ociManifest, 'content-length': bytes.length });
  response.end(request.method === 'HEAD' ? undefined : bytes);
}

/** Waits until the client is gone, at most {@link CONFIG_HOLD_MS}, then answers 404. */
export async function refuseProbeConfig(
  { clock }: Pick<PullApi, 'clock'>,
  digest: Digest,
  response: ServerResponse,
): Promise<void> {
  await clock.sleep(CONFIG_HOLD_MS, closeSignal(response)).catch(() => undefined); // aborted when the client is gone
  if (response.destroyed) return;
  respondError(response, 404, { code: 'BLOB_UNKNOWN', message: `blob ${digest} is only a probe`, detail: { digest } });
}

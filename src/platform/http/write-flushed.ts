import type { ServerResponse } from 'node:http';
import { untilAborted } from '../async/abort.ts';
import { CLOSED } from './close-signal.ts';

/**
 * Writes a chunk and waits until the kernel has it, because its buffer is used again afterwards.
 *
 * @throws {@link CLOSED} when it can't be written; whatever aborted `signal`
 */
export async function writeFlushed(response: ServerResponse, chunk: Buffer, signal: AbortSignal): Promise<void> {
  const written = new Promise<void>((resolve, reject) => {
    response.write(chunk, (error) => (error ? reject(CLOSED) : resolve()));
  });
  await untilAborted(written, signal);
}

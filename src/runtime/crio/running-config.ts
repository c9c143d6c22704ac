import { request } from 'node:http';
import { AppError } from '../../platform/app-error.ts';
import { isTable, parseToml } from '../config/config-file.ts';

/** It has a few KiB. */
const MAX_BYTES = 1024 * 1024;

/**
 * The image of pod sandboxes that CRI-O uses, its default too: `pause_image` of its running
 * configuration, which it gives as TOML on its CRI socket (docs/runtime-facts.md, fact 6).
 *
 * @returns undefined when the answer has none
 * @throws AppError `runtime/unreachable`; system errors of the socket
 */
export async function runningPauseImage(socketPath: string, signal: AbortSignal): Promise<string | undefined> {
  const parsed = parseToml(await readConfig(socketPath, signal));
  const crio = parsed.kind === 'table' ? parsed.table.crio : undefined;
  const image = isTable(crio) ? crio.image : undefined;
  return isTable(image) && typeof image.pause_image === 'string' ? image.pause_image : undefined;
}

function readConfig(socketPath: string, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const asking = request({ socketPath, path: '/config', signal, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      let sizeBytes = 0;
      response.on('data', (chunk: Buffer) => {
        sizeBytes += chunk.length;
        if (sizeBytes > MAX_BYTES) response.destroy(tooLong());
        else chunks.push(chunk);
      });
      response.on('end', () => resolve(Buffer.concat(chunks).toString('utf8')));
      response.on('error', reject);
    });
    asking.on('error', reject);
    asking.end();
  });
}

function tooLong(): AppError {
  const message = `the configuration that CRI-O answers with has more than ${MAX_BYTES} bytes`;
  return new AppError({ code: 'runtime/unreachable', message, disposition: 'retry' });
}

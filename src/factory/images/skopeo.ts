import { bundleError } from '../../bundle/bundle-error.ts';
import { limits } from '../../bundle/limits.ts';
import { type RegistryAccess, WITHOUT_TLS } from '../../distribution/registry-client.ts';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { type Ended, runProgram } from '../run-program.ts';

/** skopeo-inspect(1), skopeo-copy(1). */
export function accessFlags({ authfile, tlsVerify, retries }: RegistryAccess, command: 'inspect' | 'copy'): string[] {
  const tls = command === 'copy' ? '--src-tls-verify' : '--tls-verify';
  return [
    ...(authfile === undefined ? [] : ['--authfile', authfile]),
    ...(tlsVerify === undefined ? [] : [`${tls}=${tlsVerify}`]),
    ...(retries === undefined ? [] : ['--retry-times', `${retries}`]),
  ];
}

/**
 * An abort kills it. `what`: the image. @returns its stdout, at most 4 MiB
 *
 * @throws AppError `bundle/skopeo` with skopeo's last line, or another way to give the image
 */
export async function runSkopeo(args: readonly string[], what: string, signal: AbortSignal): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  const onOutput = (chunk: Buffer, kill: () => void) => {
    sizeBytes += chunk.length;
    if (sizeBytes <= limits.manifestBytes) chunks.push(chunk);
    else kill();
  };
  const ended = await runProgram('skopeo', args, onOutput, signal);
  if (ended.kind === 'exit' && ended.code === 0) return Buffer.concat(chunks);
  const cause = ended.kind === 'error' ? ended.error : undefined;
  throw bundleError('bundle/skopeo', `${what} can't be fetched: ${reasonFor(ended)}`, { cause });
}

const REPACKED =
  'this storage keeps layers unpacked, so the image would get another digest; take it from its registry, or from an archive that was copied from the registry';

function reasonFor(ended: Ended): string {
  if (ended.kind === 'exit') {
    const message = lastMessage(ended.errors) || `skopeo ended with ${ended.code}`;
    if (/server gave HTTP response to HTTPS client/.test(message)) return `the registry has no TLS: ${WITHOUT_TLS}`;
    return /preserve digests/.test(message) ? `${message}: ${REPACKED}` : message;
  }
  return systemCodeOf(ended.error) === 'ENOENT'
    ? 'skopeo is not installed; install it, or give the image as oci:DIR:TAG'
    : reasonOf(ended.error);
}

/** skopeo logs `time="…" level=fatal msg="…"`; only the message helps an operator. */
function lastMessage(stderr: string): string {
  const line = stderr.trim().split('\n').at(-1) ?? '';
  const message = / msg="((?:[^"\\]|\\.)*)"$/.exec(line)?.[1];
  return message === undefined
    ? line
    : message.replace(/\\(.)/g, (_, escaped: string) => (escaped === 'n' ? ' ' : escaped));
}

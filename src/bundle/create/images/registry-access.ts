import { stat } from 'node:fs/promises';
import { reasonOf } from '../../../platform/app-error.ts';
import { bundleError } from '../../bundle-error.ts';

/** How skopeo reaches registries. What is absent is as skopeo has it by default. */
export interface RegistryAccess {
  /** File with credentials (containers-auth.json(5)). */
  readonly authfile?: string;
  /** Whether HTTPS with a valid certificate is required. */
  readonly tlsVerify?: boolean;
  /** How often a request that failed is tried again, with growing pauses. */
  readonly retries?: number;
}

/**
 * The flags of `skopeo inspect` or `skopeo copy` (skopeo-inspect(1), skopeo-copy(1)) for this
 * access.
 */
export function accessFlags({ authfile, tlsVerify, retries }: RegistryAccess, command: 'inspect' | 'copy'): string[] {
  const tls = command === 'copy' ? '--src-tls-verify' : '--tls-verify';
  return [
    ...(authfile === undefined ? [] : ['--authfile', authfile]),
    ...(tlsVerify === undefined ? [] : [`${tls}=${tlsVerify}`]),
    ...(retries === undefined ? [] : ['--retry-times', `${retries}`]),
  ];
}

/**
 * Checks that the file with credentials is there, since skopeo is asked for it only when an image
 * comes from a registry.
 *
 * @throws AppError `bundle/option` (`reject`)
 */
export async function checkAccess({ authfile }: RegistryAccess): Promise<void> {
  if (authfile === undefined) return;
  const found = await stat(authfile).catch((cause: unknown) => {
    throw bundleError('bundle/option', `--authfile: ${authfile} can't be read: ${reasonOf(cause)}`, { cause });
  });
  if (found.isDirectory())
    throw bundleError('bundle/option', `--authfile: ${authfile} is a folder: name the file in it`);
}

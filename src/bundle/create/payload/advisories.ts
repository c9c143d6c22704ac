import { readFile, stat } from 'node:fs/promises';
import type { Advisory } from '../../../domain/model/bundle.ts';
import { AppError, reasonOf, systemCodeOf } from '../../../platform/app-error.ts';
import { bundleError } from '../../bundle-error.ts';
import { parseAdvisories } from '../../format/schema.ts';
import { limits } from '../../limits.ts';

/**
 * Reads advisories from JSON files. Each has one object `{version, deadend? | barrier?, reason}`,
 * or a list of them. An object with neither withdraws what an earlier bundle said.
 *
 * @throws AppError `bundle/option` (`reject`) that names the file, and the member that is wrong;
 *   `bundle/source` when it can't be read.
 */
export async function readAdvisories(paths: readonly string[], signal: AbortSignal): Promise<Advisory[]> {
  const all = new Map<string, Advisory>();
  for (const path of paths) {
    for (const advisory of parseAdvisories(await readLimited(path, signal), path)) {
      const { version, deadend, barrier } = advisory;
      if (deadend && barrier) {
        throw bundleError('bundle/option', `${path}: ${version} is both a dead end and a barrier; keep one of them`);
      }
      if (all.has(version))
        throw bundleError('bundle/option', `${path}: there is an advisory about ${version} already`);
      all.set(version, advisory);
    }
  }
  return [...all.values()];
}

async function readLimited(path: string, signal: AbortSignal): Promise<Buffer> {
  try {
    const { size } = await stat(path);
    if (size > limits.payloadBytes) {
      throw bundleError('bundle/option', `${path} has ${size} bytes, and ${limits.payloadBytes} are allowed`);
    }
    return await readFile(path, { signal });
  } catch (cause) {
    signal.throwIfAborted();
    if (cause instanceof AppError || systemCodeOf(cause) === undefined) throw cause;
    throw bundleError('bundle/source', `advisory file ${path} can't be read: ${reasonOf(cause)}`, { cause });
  }
}

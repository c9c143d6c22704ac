import { stat } from 'node:fs/promises';
import { loadTrustedKey, loadTrustedKeys, type Trust } from '../../bundle/keys/trust.ts';
import type { BundleReader } from '../../bundle/read/bundle-reader.ts';
import { type JudgedBundle, judgeBundle, readUntrusted } from '../../bundle/verify/judge-bundle.ts';
import { AppError } from '../../platform/app-error.ts';
import { printWarning } from '../output/text.ts';
import { cliError } from './cli-error.ts';
import type { CommandContext } from './command-context.ts';

/** `keys`: a folder or one public key; without it the signature is not checked. */
export interface KeyOptions {
  readonly keys?: string;
  readonly threshold: number;
}

/** A bundle that was read with or without keys. Its digests were checked in both cases. */
export interface ReadBundle extends Omit<JudgedBundle, 'isEnvelope'> {
  /** `text` is for display: `signature by factory-2026 ok`. */
  readonly judgement: { readonly kind: 'verified' | 'unjudged'; readonly text: string };
}

/**
 * Prints problems of the files to stderr. `path`: a folder, or the file of one key.
 *
 * @throws AppError `cli/no-keys` (`reject`) when it is neither, `bundle/key-file` (`reject`)
 */
export async function trustOf(path: string, threshold: number, context: CommandContext): Promise<Trust> {
  const { signal } = context;
  const found = await stat(path).catch(() => undefined);
  if (found?.isFile() === true) {
    if (threshold > 1) {
      const message = `--keys: ${path} is one key, and --threshold demands ${threshold} keys: name the folder with their *.pub files`;
      throw cliError('cli/no-keys', message);
    }
    return { keys: await loadTrustedKey(path, signal), threshold };
  }
  if (found?.isDirectory() !== true) {
    const message = `--keys: ${path} is ${found === undefined ? 'not there' : 'neither a file nor a folder'}: name a trusted *.pub file, or the folder with them`;
    throw cliError('cli/no-keys', message);
  }
  const trust = { keys: await loadTrustedKeys(path, signal), threshold };
  for (const { message, isPrivateKey } of trust.keys.problems) {
    printWarning(isPrivateKey ? `${message}: keep it out of folders that go to nodes` : message, context);
  }
  return trust;
}

/**
 * Checks the digests, and the signature when there are keys.
 *
 * @throws AppError `cli/unverified` (`reject`) when it is bad, or its signature is not valid;
 *   errors of `trustOf()`
 */
export async function readWithKeys(
  reader: BundleReader,
  { keys, threshold }: KeyOptions,
  context: CommandContext,
): Promise<ReadBundle> {
  const { signal } = context;
  const trust = keys === undefined ? undefined : await trustOf(keys, threshold, context);
  return asUnverified(reader.path, async () => {
    if (trust === undefined) {
      const text = 'signature not judged, since no --keys are given; digests of contents and index right';
      return { ...(await readUntrusted(reader, signal)), judgement: { kind: 'unjudged', text } };
    }
    const judged = await judgeBundle(reader, trust, signal);
    const text = `signature by ${judged.bundle.signedBy.join(', ')} ok`;
    return { ...judged, judgement: { kind: 'verified', text } };
  });
}

/**
 * Errors about a bundle become `cli/unverified`, for commands that verify. Other errors, for
 * example that the medium was removed or that nothing is at the path, stay unchanged.
 */
export async function asUnverified<T>(path: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof AppError) || error.code.startsWith('media/') || error.code === 'cli/no-bundle') throw error;
    throw cliError('cli/unverified', namedBy(path, error.message), error);
  }
}

export async function withPath<T>(path: string, read: Promise<T>): Promise<T> {
  return read.catch((error: unknown) => {
    throw error instanceof AppError ? error.reworded(namedBy(path, error.message)) : error;
  });
}

function namedBy(path: string, message: string): string {
  return message.startsWith(path) ? message : `${path}: ${message}`;
}

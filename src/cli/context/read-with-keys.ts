import { stat } from 'node:fs/promises';
import { loadTrustedKeys, type Trust } from '../../bundle/keys/trust.ts';
import type { BundleReader } from '../../bundle/read/bundle-reader.ts';
import { type JudgedBundle, judgeBundle, readUntrusted } from '../../bundle/verify/judge-bundle.ts';
import { AppError } from '../../platform/app-error.ts';
import { printWarning } from '../output/text.ts';
import { cliError } from './cli-error.ts';
import type { CommandContext } from './command-context.ts';

/** `keys`: a folder; without it the signature is not checked. */
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
 * Prints problems of the files to stderr. @throws AppError `cli/no-keys` (`reject`) when it is not
 * a folder
 */
export async function trustOf(folder: string, threshold: number, context: CommandContext): Promise<Trust> {
  const isFolder = await stat(folder).then(
    (found) => found.isDirectory(),
    () => false,
  );
  if (!isFolder) {
    throw cliError('cli/no-keys', `--keys: ${folder} is not a folder: name the one with the trusted *.pub files`);
  }
  const trust = { keys: await loadTrustedKeys(folder, context.signal), threshold };
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

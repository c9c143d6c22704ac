import { readFile, stat } from 'node:fs/promises';
import { bundleError } from '../../bundle/bundle-error.ts';
import { type ImageRequest, parseImageRequest } from '../../bundle/image-request.ts';
import { AppError, FaultList, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { decodeText } from '../../platform/plain-text.ts';

const MAX_FILE_BYTES = 4 * 1024 * 1024;

/** Reads at most 4 MiB. @throws AppError `bundle/option` with file and line; `bundle/source` */
export async function readImagesFile(path: string, signal: AbortSignal, shortNames?: string): Promise<ImageRequest[]> {
  const bytes = await readOptionFile(path, 'images', MAX_FILE_BYTES, signal);
  return parseImagesFile(textOf(bytes, path), path, shortNames);
}

/** @throws AppError `bundle/option` when it is too large, `bundle/source` */
export async function readOptionFile(
  path: string,
  kind: 'images' | 'advisory' | 'order' | 'signature' | 'key' | 'policy',
  maxBytes: number,
  signal: AbortSignal,
): Promise<Buffer> {
  try {
    const found = await stat(path);
    const { size } = found;
    if (found.isCharacterDevice() || found.isBlockDevice()) {
      throw bundleError('bundle/source', `${kind} file ${path} is a device, and not a file`);
    }
    if (size > maxBytes) throw bundleError('bundle/option', `${path} has ${size} bytes, and ${maxBytes} are allowed`);
    return await readFile(path, { signal });
  } catch (cause) {
    signal.throwIfAborted();
    if (cause instanceof AppError || systemCodeOf(cause) === undefined) throw cause;
    throw bundleError('bundle/source', `${kind} file ${path} can't be read: ${reasonOf(cause)}`, { cause });
  }
}

function textOf(bytes: Buffer, path: string): string {
  try {
    return decodeText(bytes, true);
  } catch (cause) {
    throw bundleError('bundle/option', `images file ${path} is not UTF-8 text: save it as such`, { cause });
  }
}

/**
 * A line has the argument of `--image`, then options (`pin=false`), separated by spaces. `#` at the
 * start or after a space begins a comment.
 *
 * @param shortNames the registry of names without one; without it they are faults
 * @throws AppError `bundle/option` as `FILE:LINE: why`
 */
export function parseImagesFile(text: string, path: string, shortNames?: string): ImageRequest[] {
  const lines = text.replace(/^\ufeff/, '').split('\n');
  const faults = new FaultList();
  const images = lines.flatMap((line, at) => {
    const words = line.replace(/(^|\s)#.*$/s, '').trim();
    try {
      return words === '' ? [] : [parseLine(words.split(/\s+/), `${path}:${at + 1}`, shortNames)];
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      faults.add(error);
      return [];
    }
  });
  faults.throwAny();
  return images;
}

function parseLine(
  [image = '', ...settings]: readonly string[],
  origin: string,
  shortNames: string | undefined,
): ImageRequest {
  try {
    return { ...parseImageRequest(image, shortNames), ...parsePin(settings), origin };
  } catch (cause) {
    if (!(cause instanceof AppError)) throw cause;
    throw bundleError('bundle/option', `${origin}: ${cause.message}`, { cause });
  }
}

function parsePin(settings: readonly string[]): { pin?: boolean } {
  const [first, second] = settings;
  const wrong = settings.find((setting) => !/^pin=(?:true|false)$/.test(setting));
  if (wrong !== undefined) {
    const message = `'${wrong}' is not an option of an image; the options are pin=false and pin=true`;
    throw bundleError('bundle/option', message);
  }
  if (second !== undefined) throw bundleError('bundle/option', `'${second}': pin is given twice`);
  return first === undefined ? {} : { pin: first === 'pin=true' };
}

/** Errors of `act` begin with file and line of the request; code and disposition stay. */
export async function withOrigin<T>(origin: string | undefined, act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (cause) {
    if (origin === undefined || !(cause instanceof AppError)) throw cause;
    throw cause.reworded(`${origin}: ${cause.message}`);
  }
}

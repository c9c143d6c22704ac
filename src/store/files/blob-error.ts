import type { Digest } from '../../domain/model/digest.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';

/** Bytes that came have another digest than the blob. */
export function mismatch(path: string, digest: Digest, actual: Digest): AppError {
  return new AppError({
    code: 'store/blob',
    message: `${path} is not written: it should hold ${digest}, and what was read from the medium has digest ${actual}; copy the bundle to the medium again`,
    disposition: 'retry',
  });
}

/** A blob that is not there (any more). */
export function absentBlob(path: string): AppError {
  return new AppError({ code: 'media/gone', message: `${path} is not there`, disposition: 'wait' });
}

/** `how`: what could not be done with `path`, as a participle. */
export function blobError(path: string, how: string, cause: unknown): AppError {
  return new AppError({
    code: 'store/blob',
    message: `${path} can't be ${how}: ${reasonOf(cause)}`,
    disposition: 'retry',
    cause,
  });
}

import { AppError } from '../../platform/app-error.ts';
import type { MediaErrorCode } from './media-provider.ts';

/** `media/load` (`reject`): the given path can't be used as a medium. */
export function loadError(message: string, cause?: unknown): AppError<MediaErrorCode> {
  return new AppError({ code: 'media/load', message, disposition: 'reject', cause });
}

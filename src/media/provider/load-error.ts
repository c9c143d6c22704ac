import { AppError } from '../../platform/app-error.ts';
import type { MediaErrorCode } from './media-provider.ts';

/** `media/load` (`reject`): what a person named can't be taken for a medium. */
export function loadError(message: string, cause?: unknown): AppError<MediaErrorCode> {
  return new AppError({ code: 'media/load', message, disposition: 'reject', cause });
}

import { AppError, reasonOf } from '../../platform/app-error.ts';
import { digestOf } from '../../platform/digest.ts';

/** A JSON document with a checksum, against damage. */
export function sealed(value: unknown): string {
  const body = JSON.stringify(value);
  return `{"checksum":"${digestOf(body)}","content":${body}}\n`;
}

type Opened =
  | { readonly kind: 'read'; readonly value: unknown }
  | { readonly kind: 'damaged'; readonly reason: string };

export function openSeal(text: string): Opened {
  try {
    const { checksum, content } = JSON.parse(text) as { checksum: unknown; content: unknown };
    if (checksum === digestOf(JSON.stringify(content))) return { kind: 'read', value: content };
  } catch {
    // as a wrong checksum
  }
  return { kind: 'damaged', reason: text === '' ? 'it is empty' : 'its checksum is wrong' };
}

/** `store/read` (`fatal`): the content may be good. */
export function unreadable(path: string, cause: unknown): AppError {
  const message = `${path} can't be read: ${reasonOf(cause)}; see that the disk works and that the file may be read`;
  return new AppError({ code: 'store/read', message, disposition: 'fatal', cause });
}

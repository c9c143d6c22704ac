import DBusBuffer from 'dbus-next/lib/dbus-buffer.js';
import { messageToJsFmt } from 'dbus-next/lib/marshall-compat.js';
import type { MessageHeader } from './header.ts';

/**
 * Unmarshals the body of a message, at the start of `bytes`. It needs up to thirty times their
 * length in memory, so the caller must check length, sender and signature first.
 *
 * @throws Error when the bytes do not fit the signature.
 */
export function readBody({ signature, isLittleEndian }: MessageHeader, bytes: Buffer): readonly unknown[] {
  if (signature === '') return [];
  const endian = (isLittleEndian ? 'l' : 'B').charCodeAt(0);
  return messageToJsFmt({ signature, body: new DBusBuffer(bytes, 0, endian, undefined, {}).read(signature) }).body;
}

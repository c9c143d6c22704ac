import DBusBuffer from 'dbus-next/lib/dbus-buffer.js';
import { marshallMessage, messageToJsFmt } from 'dbus-next/lib/marshall-compat.js';
import { Message } from 'dbus-next/lib/message-type.js';
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

/**
 * The bytes of a body, which may be sent any number of times. @throws Error when it does not fit
 * `signature`
 */
export function writeBody(signature: string, body: readonly unknown[]): Buffer {
  const message = new Message({ path: '/', member: 'Body', signature, body: [...body] });
  message.serial = 1;
  const [bytes] = marshallMessage(message);
  return bytes.subarray(bytes.length - bytes.readUInt32LE(4));
}

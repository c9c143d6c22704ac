import { clip, oneLine } from '../../../platform/plain-text.ts';
import { limits } from '../../limits.ts';

/** A quarter of the payload, so that enough room is left for the rest. */
const MAX_BYTES = limits.payloadBytes / 4;

/**
 * Warnings as a payload may hold them: a line of at most 1,024 characters each, at most 256 and 64
 * KiB together. If there are more, the last line says how many are left out.
 */
export function payloadWarnings(warnings: readonly string[]): string[] {
  const lines = warnings.map((warning) => clip(oneLine(warning), limits.textLength));
  let left = MAX_BYTES;
  const fitting = lines.findIndex((line, at) => {
    left -= Buffer.byteLength(line);
    return left < 0 || (at >= limits.payloadItems - 1 && lines.length > limits.payloadItems);
  });
  return fitting < 0 ? lines : [...lines.slice(0, fitting), `… and ${lines.length - fitting} more warnings`];
}

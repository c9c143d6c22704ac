import { expect } from 'vitest';

const textLike = (text: string | RegExp): string =>
  typeof text === 'string' ? expect.stringContaining(text) : expect.stringMatching(text);

/** An error or a reason of this code whose message has this text. */
export function coded(code: string, text: string | RegExp): { readonly code: string; readonly message: string } {
  return { code, message: textLike(text) };
}

/** A command that ended so and wrote this text to stderr. */
export function ended(exitCode: number, text: string | RegExp): { readonly exitCode: number; readonly stderr: string } {
  return { exitCode, stderr: textLike(text) };
}

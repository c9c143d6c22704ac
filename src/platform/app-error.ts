/**
 * What may be done about an error.
 *
 * - `retry`: the same act may succeed in a moment (a transfer broke, a service restarts);
 * - `reject`: the input is bad and stays bad; nothing is gained by trying again;
 * - `wait`: something outside must change first (a medium, disk space, a key);
 * - `fatal`: the program cannot go on.
 */
export type Disposition = 'retry' | 'reject' | 'wait' | 'fatal';

/**
 * What an {@link AppError} is made of. `message` says what, which (path, digest, field), why, and
 * what to do next.
 */
export interface AppErrorInit<Code extends string> {
  readonly code: Code;
  readonly message: string;
  readonly disposition: Disposition;
  readonly cause?: unknown;
}

/**
 * The one error type of stickpin. `code` is a string of the form `room/what`, a union in each room,
 * and what callers branch on; nobody branches on the text of a message.
 */
export class AppError<Code extends string = string> extends Error {
  override readonly name = 'AppError';
  readonly code: Code;
  readonly disposition: Disposition;

  constructor(init: AppErrorInit<Code>) {
    super(init.message, init.cause === undefined ? undefined : { cause: init.cause });
    this.code = init.code;
    this.disposition = init.disposition;
  }
}

/** The text of anything that was thrown, for use inside the message of an {@link AppError}. */
export function reasonOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** The `code` of a Node system error (`ENOENT`, `ENOSPC`, …), or undefined. */
export function systemCodeOf(thrown: unknown): string | undefined {
  if (thrown instanceof Error && 'code' in thrown && typeof thrown.code === 'string') return thrown.code;
  return undefined;
}

/** Marks the end of an exhaustive `switch`; a value that reaches it is a bug in this program. */
export function assertNever(value: never): never {
  throw new TypeError(`unexpected value ${JSON.stringify(value)}`);
}

import { withoutLogins } from './plain-text.ts';

/**
 * - `retry`: the same action may succeed soon (a transfer broke, a service restarts);
 * - `reject`: the input is bad, and another try would fail too;
 * - `wait`: something external must change first (a medium, disk space, a key);
 * - `fatal`: the program can't continue.
 */
export type Disposition = 'retry' | 'reject' | 'wait' | 'fatal';

/** `message` says what, which (path, digest, field), why, and what to do next. */
export interface AppErrorInit<Code extends string> {
  readonly code: Code;
  readonly message: string;
  readonly disposition: Disposition;
  readonly cause?: unknown;
}

/** `code` has the form `room/what`. Callers branch on it and never on the message. */
export class AppError<Code extends string = string> extends Error {
  override readonly name = 'AppError';
  readonly code: Code;
  readonly disposition: Disposition;

  constructor(init: AppErrorInit<Code>) {
    super(init.message, init.cause === undefined ? undefined : { cause: init.cause });
    this.code = init.code;
    this.disposition = init.disposition;
  }

  /** The same error in other words, which it causes. */
  reworded(message: string): AppError<Code> {
    return new AppError({ code: this.code, message, disposition: this.disposition, cause: this });
  }
}

const MAX_FAULTS = 20;

/** Collects AppErrors of several checks, so that a person learns of all faults at once. */
export class FaultList {
  private readonly faults: AppError[] = [];

  /** Returns undefined when the check refuses. */
  async of<T>(check: () => T | Promise<T>): Promise<T | undefined> {
    try {
      return await check();
    } catch (error) {
      if (!(error instanceof AppError) || error.disposition !== 'reject') throw error;
      this.add(...(error.cause instanceof AggregateError ? (error.cause.errors as AppError[]) : [error]));
      return undefined;
    }
  }

  add(...faults: readonly AppError[]): void {
    this.faults.push(...faults);
  }

  get isEmpty(): boolean {
    return this.faults.length === 0;
  }

  /**
   * Throws with the code of the first fault. `next` follows; with `nextOf` only after a fault of
   * that code.
   */
  throwAny(next = '', nextOf?: string): void {
    const [first] = this.faults;
    if (first === undefined) return;
    const isNext = nextOf === undefined || this.faults.some(({ code }) => code === nextOf);
    throw new AppError({
      code: first.code,
      message: `${faultsText(this.faults.map(({ message }) => message))}${isNext ? next : ''}`,
      disposition: 'reject',
      cause: this.faults.length === 1 ? first.cause : new AggregateError(this.faults),
    });
  }
}

/** The text has one line, numbered when there are several faults. */
export function faultsText(faults: readonly string[]): string {
  const [first = ''] = faults;
  if (faults.length < 2) return first;
  const shown = faults.slice(0, MAX_FAULTS).map((fault, at) => `(${at + 1}) ${fault}`);
  const more = faults.length - shown.length;
  return `${faults.length} faults: ${[...shown, ...(more > 0 ? [`and ${more} more`] : [])].join('; ')}`;
}

/** Node: `CODE: words, call 'path'`. */
const systemMessage = /^(?<code>E[A-Z0-9]+): (?<words>[^,]+)(?<call>, .+)?$/s;

/** Replaces words of libuv that don't say what is wrong. */
const plainWords: Readonly<Record<string, string>> = {
  EISDIR: 'it is a directory',
};

/**
 * The text never has the login of an address. A system error begins with its words: `no such file
 * or directory (ENOENT, open '/etc/x')`.
 */
export function reasonOf(thrown: unknown): string {
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  const { code = '', words = '', call = '' } = systemMessage.exec(message)?.groups ?? {};
  if (code === '' || code !== systemCodeOf(thrown)) return withoutLogins(message);
  return `${plainWords[code] ?? words} (${code}${call})`;
}

/** `ENOENT`, `ENOSPC`, … */
export function systemCodeOf(thrown: unknown): string | undefined {
  if (thrown instanceof Error && 'code' in thrown && typeof thrown.code === 'string') return thrown.code;
  return undefined;
}

/** A value that reaches it is a bug. */
export function assertNever(value: never): never {
  throw new TypeError(`unexpected value ${JSON.stringify(value)}`);
}

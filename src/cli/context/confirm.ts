import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';
import { AppError } from '../../platform/app-error.ts';

/** The streams of a question. Both must be terminals, so that a person answers. */
export interface ConfirmStreams {
  readonly input: NodeJS.ReadableStream;
  readonly output: NodeJS.WritableStream;
}

/**
 * Asks a person. Resolves to true for the answer `y` or `yes`, otherwise to false, also for a line
 * without Enter. Rejects when `signal` aborts.
 */
export type Confirm = (question: string, signal: AbortSignal) => Promise<boolean>;

/** The content of a question. */
export interface Confirmation {
  /** The code of the error that a confirmation overrides. */
  readonly code: string;
  /** Follows the message of that error. */
  readonly question: string;
  /** What stays unchanged after the answer no. */
  readonly unchanged: string;
}

/**
 * Tries an action. If the daemon refuses it without force, asks a person at a terminal and repeats
 * it with force.
 *
 * @param go executes the action, with or without force
 * @throws AppError `cli/declined` (`reject`) after the answer no, and when nobody can be asked;
 *   otherwise errors of `go`
 */
export async function confirmOrDecline(
  go: (isForced: boolean) => Promise<void>,
  isForced: boolean,
  { confirm, signal }: { readonly confirm?: Confirm | undefined; readonly signal: AbortSignal },
  { code, question, unchanged }: Confirmation,
): Promise<void> {
  try {
    await go(isForced);
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== code) throw error;
    if (confirm === undefined) {
      throw declined(error, `${error.message}; nothing was changed. Give --force to do it anyway`);
    }
    if (!(await confirm(`${error.message}. ${question}`, signal))) {
      throw declined(error, `nothing was changed: ${unchanged}`);
    }
    await go(true);
  }
}

function declined(cause: unknown, message: string): AppError {
  return new AppError({ code: 'cli/declined', message, disposition: 'reject', cause });
}

/**
 * Makes a {@link Confirm}. The terminal keeps its own line editing, so that Ctrl-C comes as SIGINT.
 */
export function createConfirm({ input, output }: ConfirmStreams): Confirm {
  return async (question, signal) => {
    const lines = createInterface({ input, output, terminal: false });
    try {
      const ended = once(lines, 'close').then(() => undefined);
      const answer = await Promise.race([lines.question(`${question} [y/N] `, { signal }), ended]);
      // The cursor is still after the question.
      if (answer === undefined) output.write('\n');
      return /^y(es)?$/i.test(answer?.trim() ?? '');
    } finally {
      lines.close();
    }
  };
}

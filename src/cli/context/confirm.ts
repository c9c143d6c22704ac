import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';
import { AppError } from '../../platform/app-error.ts';

/**
 * What a question is asked over. Both ends are terminals, or the answer would not be a person's.
 */
export interface ConfirmStreams {
  readonly input: NodeJS.ReadableStream;
  readonly output: NodeJS.WritableStream;
}

/**
 * Asks a person; resolves to whether the answer was `y` or `yes`. Anything else is a no, also a
 * line that was not ended by Enter. Rejects when `signal` aborts.
 */
export type Confirm = (question: string, signal: AbortSignal) => Promise<boolean>;

/** What a person is asked about. */
export interface Confirmation {
  /** The code of the error that a confirmation overrides. */
  readonly code: string;
  /** Stands behind the message of that error. */
  readonly question: string;
  /** What stays as it is after a no. */
  readonly unchanged: string;
}

/**
 * Does what the daemon does by force only after a person at a terminal has said yes.
 *
 * @param go does it, by force or not
 * @throws AppError `cli/declined` (`reject`) after a no, and where nobody can be asked; what `go`
 *   throws otherwise
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
      throw declined(error, `${error.message}; nothing was changed. Say --force if you mean it`);
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
      // The cursor still stands behind the question.
      if (answer === undefined) output.write('\n');
      return /^y(es)?$/i.test(answer?.trim() ?? '');
    } finally {
      lines.close();
    }
  };
}

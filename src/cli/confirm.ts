import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';

/** What a question is asked over. Both ends are terminals, or the answer would not be a person's. */
export interface ConfirmStreams {
  readonly input: NodeJS.ReadableStream;
  readonly output: NodeJS.WritableStream;
}

/** Asks a person; resolves to whether the answer was `y` or `yes`. Anything else is a no, also a line that was not ended by Enter. Rejects when `signal` aborts. */
export type Confirm = (question: string, signal: AbortSignal) => Promise<boolean>;

/** Makes a {@link Confirm}. The terminal keeps its own line editing, so that Ctrl-C comes as SIGINT. */
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

import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';
import { AppError } from '../../platform/app-error.ts';
import { cliError } from './cli-error.ts';

/**
 * Resolves to true for the answer `y` or `yes`, otherwise to false, also for a line without Enter.
 * Rejects when `signal` aborts.
 */
export type Confirm = (question: string, signal: AbortSignal) => Promise<boolean>;

interface Question {
  /** What the answer yes does, without full stop: `If you unpin ocp@4.13.7, its images …`. */
  readonly consequence: string;
  /** Ends the question. */
  readonly question: string;
  /** What stays unchanged after the answer no. */
  readonly unchanged: string;
}

/** Nobody can answer without `confirm`. */
interface Asked {
  readonly confirm?: Confirm | undefined;
  readonly signal: AbortSignal;
}

/** @throws AppError `cli/declined` (`reject`) after the answer no, and when nobody can answer */
export async function confirmFirst(
  { confirm, signal }: Asked,
  { consequence, question, unchanged }: Question,
  cause?: AppError,
): Promise<void> {
  if (confirm === undefined) {
    const message = `${cause?.message ?? consequence}; nothing was changed. Give --force to do it anyway`;
    throw cliError('cli/declined', message, cause);
  }
  const against = cause === undefined ? '' : ` But ${cause.message}.`;
  if (await confirm(`${consequence}.${against} ${question}`, signal)) return;
  throw cliError('cli/declined', `nothing was changed: ${unchanged}`, cause);
}

/**
 * If the daemon refuses `go` without force, repeats it with force after a confirmation.
 *
 * @param question `code`: of the error that a confirmation overrides
 * @throws as {@link confirmFirst}; otherwise errors of `go`
 */
export async function confirmOrDecline<T>(
  go: (isForced: boolean) => Promise<T>,
  isForced: boolean,
  flags: Asked,
  question: Question & { readonly code: string },
): Promise<T> {
  try {
    return await go(isForced);
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== question.code) throw error;
    await confirmFirst(flags, question, error);
    return go(true);
  }
}

/**
 * Both streams must be terminals. The terminal keeps its own line editing, so that Ctrl-C comes as
 * SIGINT.
 */
export function createConfirm(input: NodeJS.ReadableStream, output: NodeJS.WritableStream): Confirm {
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

/**
 * The secret is not shown while it is typed. Resolves to undefined when the input ends. Rejects
 * when `signal` aborts.
 */
export type ReadSecret = (question: string, signal: AbortSignal) => Promise<string | undefined>;

export interface SecretTerminal {
  readonly input: NodeJS.ReadableStream & { setRawMode(isRaw: boolean): unknown };
  readonly output: NodeJS.WritableStream;
  /** Called for Ctrl-C, since a terminal in raw mode sends no SIGINT. */
  readonly interrupt: () => void;
  /** Called after the question. */
  readonly close?: () => void;
}

const [CTRL_C, CTRL_D, CTRL_U] = ['\u0003', '\u0004', '\u0015'];
const ENDS = new Set(['\r', '\n', CTRL_D]);
const ERASES = new Set(['\b', '\u007f']);

/** The terminal is opened for each question, and is in raw mode only meanwhile. */
export function createReadSecret(open: () => SecretTerminal): ReadSecret {
  return (question, signal) =>
    new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const { input, output, interrupt, close } = open();
      let typed = '';
      const finish = (end: () => void) => {
        input.off('data', onData);
        input.off('end', onEnd);
        signal.removeEventListener('abort', onAbort);
        input.setRawMode(false);
        input.pause();
        output.write('\n');
        close?.();
        end();
      };
      const onAbort = () => finish(() => reject(signal.reason));
      const onEnd = () => finish(() => resolve(undefined));
      const onData = (chunk: Buffer | string) => {
        for (const character of chunk.toString()) {
          if (character === CTRL_C) return interrupt();
          if (ENDS.has(character)) {
            return finish(() => resolve(character === CTRL_D && typed === '' ? undefined : typed));
          }
          typed = edited(typed, character);
        }
      };
      // The terminal shows nothing that is typed after this.
      input.setRawMode(true);
      signal.addEventListener('abort', onAbort, { once: true });
      input.on('data', onData).on('end', onEnd).resume();
      output.write(`${question} `);
    });
}

/** The text typed so far, after one more key. Other control characters are ignored. */
function edited(typed: string, character: string): string {
  if (character === CTRL_U) return '';
  if (ERASES.has(character)) return [...typed].slice(0, -1).join('');
  return character < ' ' ? typed : typed + character;
}

/**
 * Asks a person for a secret, which is not shown while it is typed. Resolves to undefined when the
 * input ends. Rejects when `signal` aborts.
 */
export type AskSecret = (question: string, signal: AbortSignal) => Promise<string | undefined>;

/** A terminal for {@link createAskSecret}. */
export interface SecretTerminal {
  readonly input: NodeJS.ReadableStream & { setRawMode(isRaw: boolean): unknown };
  readonly output: NodeJS.WritableStream;
  /** Called for Ctrl-C, which a terminal in raw mode does not turn into SIGINT. */
  readonly interrupt: () => void;
  /** Called after the question. */
  readonly close?: () => void;
}

const [CTRL_C, CTRL_D, CTRL_U] = ['\u0003', '\u0004', '\u0015'];
const ENDS = new Set(['\r', '\n', CTRL_D]);
const ERASES = new Set(['\b', '\u007f']);

/**
 * Makes an {@link AskSecret}. The terminal is opened for each question, and in raw mode only while
 * it asks.
 */
export function createAskSecret(open: () => SecretTerminal): AskSecret {
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
      // Nothing that is typed from here on is shown.
      input.setRawMode(true);
      signal.addEventListener('abort', onAbort, { once: true });
      input.on('data', onData).on('end', onEnd).resume();
      output.write(`${question} `);
    });
}

/** What is typed so far, after one more key. Other control characters are ignored. */
function edited(typed: string, character: string): string {
  if (character === CTRL_U) return '';
  if (ERASES.has(character)) return [...typed].slice(0, -1).join('');
  return character < ' ' ? typed : typed + character;
}

import { closeSync, openSync } from 'node:fs';
import { ReadStream, WriteStream } from 'node:tty';
import type { SecretTerminal } from '../../cli/context/ask-secret.ts';

/** tty(4): the terminal of the process, wherever its standard streams lead. */
const TERMINAL = '/dev/tty';

/** Whether a person sits at a terminal, also where standard input is a pipe. */
export function hasControllingTerminal(): boolean {
  try {
    closeSync(openSync(TERMINAL, 'r+'));
    return true;
  } catch {
    return false;
  }
}

/** Opens the terminal for one question. @throws Error of the system when there is none */
export function openControllingTerminal(): SecretTerminal {
  const input = new ReadStream(openSync(TERMINAL, 'r+'));
  const output = new WriteStream(openSync(TERMINAL, 'r+'));
  return {
    input,
    output,
    interrupt: () => process.kill(process.pid, 'SIGINT'),
    close: () => {
      input.destroy();
      output.destroy();
    },
  };
}

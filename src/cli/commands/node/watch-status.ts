import type { ApiClient } from '../../../api/client.ts';
import { AppError } from '../../../platform/app-error.ts';
import { oneLine, sentence } from '../../../platform/plain-text.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { wrapLines } from '../../output/wrap-words.ts';

/** Prints the state of a daemon to a width of the terminal. @throws AppError of the daemon */
export type PrintStatus = (columns: number | undefined) => Promise<void>;

/**
 * From the top of the terminal. Each line is cleared as it is written, so that nothing flickers.
 */
export function repainted(text: string): string {
  return `\u001b[H${text.replaceAll('\n', '\u001b[K\n')}\u001b[J`;
}

/**
 * Prints now, after each change, and when the terminal has another size, until the signal of the
 * context aborts. A daemon that ends meanwhile is told, and printed again once it answers.
 *
 * @param isRepainted whether each print takes the place of the one before
 * @throws AppError of the first print; of a later one, but for a daemon that does not answer
 */
export async function watchStatus(
  client: Pick<ApiClient, 'watch'>,
  print: PrintStatus,
  context: CommandContext,
  isRepainted: boolean,
): Promise<void> {
  const { signal } = context;
  let { columns } = context;
  let away: string | undefined;
  const printAgain = async () => {
    try {
      await print(columns);
      away = undefined;
    } catch (error) {
      if (signal.aborted) return;
      if (!isAway(error)) throw error;
      // The rules of the bus stay: it tells when the daemon is there again.
      if (error.message !== away || isRepainted) tellAway(error, context, isRepainted ? columns : undefined);
      away = error.message;
    }
  };
  const ended = new Promise<void>((resolve, reject) => {
    let latest: Promise<void> = Promise.resolve();
    let isDue = false;
    signal.addEventListener('abort', () => resolve(latest), { once: true });
    const changed = () => {
      // The daemon sends several signals for one change.
      if (isDue) return;
      isDue = true;
      latest = latest.then(() => {
        isDue = false;
        return printAgain();
      });
      latest.catch(reject);
    };
    context.onResize?.((width) => {
      columns = width;
      if (isRepainted) changed();
    }, signal);
    // The first print comes after the subscription: what changes after it is told.
    latest = client.watch(changed, signal).then(() => print(columns));
    latest.catch(reject);
  });
  await ended;
}

function isAway(error: unknown): error is AppError {
  return error instanceof AppError && (error.code === 'api/unreachable' || error.code === 'api/starting');
}

/** `columns`: of the terminal that is painted; undefined when none is. */
function tellAway({ message }: AppError, context: CommandContext, columns: number | undefined): void {
  const text = wrapLines(`${sentence(oneLine(message))} This screen waits for it.\n`, columns);
  if (columns !== undefined) context.stdout(repainted(text));
  else context.stderr(text);
}

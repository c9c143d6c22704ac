import { jsonText } from './json.ts';
import type { CommandOutput } from './table.ts';
import { wrapLines } from './wrap-words.ts';

/** Prints what a command did: a sentence, or with `--json` the document `message`. */
export function printMessage(
  message: string,
  { json }: { readonly json?: true | undefined },
  { stdout, columns }: Pick<CommandOutput, 'stdout' | 'columns'>,
): void {
  stdout(json ? jsonText({ message }) : wrapLines(`${message}\n`, columns));
}

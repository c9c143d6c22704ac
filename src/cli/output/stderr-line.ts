import { oneLine } from '../../platform/plain-text.ts';
import { paintLines, type Tone } from './colour.ts';
import type { CommandOutput } from './table.ts';
import { wrapLines } from './wrap-words.ts';

/** Where a line for a person goes, and what its terminal can show. */
type Stderr = Pick<CommandOutput, 'stderr' | 'stderrColumns' | 'stderrHasColour'>;

/** Prints a line on stderr; a terminal would break it inside a word, so it is wrapped there. */
export function printStderrLine(
  line: string,
  tone: Tone | undefined,
  { stderr, stderrColumns, stderrHasColour }: Stderr,
): void {
  const isColoured = stderrColumns !== undefined && stderrHasColour;
  stderr(paintLines(wrapLines(`${oneLine(line)}\n`, stderrColumns, 4), tone, isColoured));
}

/** Prints on stderr what a person should know, though the command goes on. */
export function printWarning(text: string, context: Stderr): void {
  printStderrLine(`warning: ${text}`, 'warning', context);
}

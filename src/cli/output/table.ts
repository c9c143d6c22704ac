import { plainText } from '../../platform/plain-text.ts';

/** The output of a command. Injected, so that commands can be tested without a process. */
export interface CommandOutput {
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
  /** Whether stdout is a terminal. */
  readonly isTerminal: boolean;
  /** Width of the terminal of stderr. Absent when stderr is not a terminal. */
  readonly stderrColumns?: number;
}

/** A table with aligned columns and two spaces between them, each line ended by a newline. */
export function formatTable(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [header, ...rows].map((line) => line.map(plainText));
  const widths = header.map((_title, column) => Math.max(...lines.map((line) => (line[column] ?? '').length)));
  return lines
    .map(
      (line) =>
        `${line
          .map((cell, column) => cell.padEnd(widths[column] ?? 0))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('');
}

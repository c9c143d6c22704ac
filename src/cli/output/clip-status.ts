import { clip } from '../../platform/plain-text.ts';

/**
 * A STATUS line in one line of a terminal. What does not fit is left out of its middle: the end
 * tells the time that is left, or how far it is.
 */
export function clipStatus(status: string, width: number): string {
  if (status.length <= width) return status;
  const [end = ''] =
    /, [^,]*\bleft\b[^,]*$/.exec(status) ?? /, [^,]*$/.exec(status) ?? /, [^,]*\bleft\b/.exec(status) ?? [];
  return end.length * 2 > width ? clip(status, width) : `${clip(status, width - end.length)}${end}`;
}

/** `text` with every run of blanks, newlines and control characters as one blank: foreign errors come in several lines. */
export function oneLine(text: string): string {
  return text.replace(/[\s\p{Cc}]+/gu, ' ').trim();
}

/** `text`, cut to `maxLength` characters with `…` at its end when it is longer. */
export function clip(text: string, maxLength: number): string {
  return text.length <= maxLength ? text : `${text.slice(0, maxLength - 1)}…`;
}

/** `text` with one full stop at its end, unless it ends a sentence already. */
export function sentence(text: string): string {
  return /[.!?…]$/.test(text) ? text : `${text}.`;
}

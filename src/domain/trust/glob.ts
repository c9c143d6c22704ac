/**
 * Whether the whole of `text` matches a glob: `*` stands for any characters, also none, and `?` for
 * one. All other characters stand for themselves. Takes at most pattern times text steps, whatever
 * the pattern.
 */
export function matchesGlob(pattern: string, text: string): boolean {
  let at = 0;
  let next = 0;
  /** Where the last `*` is, and up to where the text is taken by it. */
  let star: { readonly pattern: number; text: number } | undefined;
  while (next < text.length) {
    if (pattern[at] === '*') {
      star = { pattern: at, text: next };
      at += 1;
    } else if (pattern[at] === text[next] || pattern[at] === '?') {
      at += 1;
      next += 1;
    } else if (star !== undefined) {
      star.text += 1;
      at = star.pattern + 1;
      next = star.text;
    } else return false;
  }
  return /^\**$/.test(pattern.slice(at));
}

/** Says whether any of an image's stored names is pinned (docs/runtime-facts.md, fact 8). */
export type PinMatcher = (names: readonly string[]) => boolean;

/**
 * Compiles `pinned_images`. A pattern matches without regard to case: `*keyword*` anywhere in the
 * name, `prefix*` anywhere too (CRI-O doesn't anchor it at the left), anything else the whole name.
 * Empty patterns match nothing.
 *
 * @throws Error for the pattern `*`, which makes CRI-O panic and so ends it.
 */
export function compilePins(patterns: readonly string[]): PinMatcher {
  const expressions = patterns.filter((pattern) => pattern !== '').map(expressionOf);
  return (names) => names.some((name) => expressions.some((expression) => expression.test(name)));
}

function expressionOf(pattern: string): RegExp {
  const quoted = (text: string) => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
  if (pattern === '*') throw new Error('panic: runtime error: slice bounds out of range [1:0]');
  if (pattern.startsWith('*') && pattern.endsWith('*')) {
    return new RegExp(quoted(pattern.slice(1, -1)), 'i');
  }
  if (pattern.endsWith('*')) return new RegExp(quoted(pattern.slice(0, -1)), 'i');
  return new RegExp(`^${quoted(pattern)}$`, 'i');
}

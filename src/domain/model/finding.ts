/** What one look at the node found, on one line. */
interface Found {
  /** What was looked at, in a word or two: `crio link`. */
  readonly subject: string;
  /** What is so. */
  readonly message: string;
}

/**
 * A finding. `fault`: something does not work; `warning`: it works, and will not always. Each of
 * these says what to do.
 */
export type Finding =
  | (Found & { readonly verdict: 'ok' })
  | (Found & { readonly verdict: 'warning' | 'fault'; readonly remedy: string });

/** Findings of one subject, shorter to write. */
export function findingsOn(subject: string) {
  return {
    ok: (message: string): Finding => ({ subject, verdict: 'ok', message }),
    warning: (message: string, remedy: string): Finding => ({ subject, verdict: 'warning', message, remedy }),
    fault: (message: string, remedy: string): Finding => ({ subject, verdict: 'fault', message, remedy }),
  };
}

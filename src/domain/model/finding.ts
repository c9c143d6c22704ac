/** The result of one check of the node, in one line. */
interface Found {
  /** What was checked, in a word or two: `crio link`. */
  readonly subject: string;
  /** The result of the check. */
  readonly message: string;
}

/**
 * A finding. `fault`: something does not work. `warning`: it works now, but may fail later. Both
 * say what to do.
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

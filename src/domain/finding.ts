/** What one look at the node found. `fault`: something does not work; `warning`: it works, and will not always. */
export interface Finding {
  /** What was looked at, in a word or two: `crio link`. */
  readonly subject: string;
  readonly verdict: 'ok' | 'warning' | 'fault';
  /** What is so, on one line. */
  readonly message: string;
  /** What to do about it; only where there is something. */
  readonly remedy?: string;
}

/** Findings of one subject, shorter to write. */
export function findingsOn(subject: string) {
  return {
    ok: (message: string): Finding => ({ subject, verdict: 'ok', message }),
    warning: (message: string, remedy: string): Finding => ({ subject, verdict: 'warning', message, remedy }),
    fault: (message: string, remedy: string): Finding => ({ subject, verdict: 'fault', message, remedy }),
  };
}

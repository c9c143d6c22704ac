/** Writes one line a message in the manner of CRI-O's text log: `time="…" level=info msg="…"`. */
export interface Log {
  info(message: string): void;
  warn(message: string): void;
  error(message: string): void;
}

/**
 * A log that writes to `write`, by default stdout, which a unit's journal or the harness collects.
 */
export function createLog(write: (line: string) => void = (line) => process.stdout.write(line)): Log {
  const at = (level: string) => (message: string) =>
    write(`time=${JSON.stringify(new Date().toISOString())} level=${level} msg=${JSON.stringify(message)}\n`);
  return { info: at('info'), warn: at('warning'), error: at('error') };
}

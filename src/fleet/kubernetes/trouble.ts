import type { Log } from '../../platform/log.ts';

/** Something that is wrong for a while. */
export interface Trouble {
  /** The sentence, while it lasts. */
  current(): string | undefined;
  /**
   * It is so now. Logged when it begins only: tries that fail in another way change what `current`
   * says.
   *
   * @returns whether that changed
   */
  begin(text: string, error: unknown): boolean;
  /** It is over; logged with `text` if it had begun. @returns whether it had */
  end(text: string): boolean;
}

/** A {@link Trouble} that has not begun. */
export function createTrouble(log: Log): Trouble {
  let current: string | undefined;
  return {
    current: () => current,
    begin: (text, error) => {
      const before = current;
      current = text;
      if (before === undefined) log.warn({ err: error }, text);
      return before !== text;
    },
    end: (text) => {
      if (current === undefined) return false;
      current = undefined;
      log.info({}, text);
      return true;
    },
  };
}

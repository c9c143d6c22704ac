/** What rules about time are judged by, beside the clock. */
export interface NodeFacts {
  /** When this program was built, milliseconds since the epoch. */
  readonly builtAt: number;
  /**
   * 32 lower-case hex digits, as in machine-id(5); undefined when the node has none. It never
   * leaves the node: only a hash decides about something.
   */
  readonly machineId: string | undefined;
  /** The time zone of the node, as `Europe/Berlin`: one that `isTimeZone` accepts. */
  readonly timeZone: string;
}

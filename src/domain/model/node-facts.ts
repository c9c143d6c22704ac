/** What rules about time are judged by, beside the clock. */
export interface NodeFacts {
  /** When this program was built, milliseconds since the epoch. */
  readonly builtAt: number;
  /**
   * 32 lower-case hex digits, as in machine-id(5); undefined when the node has none. It never
   * leaves the node: only a hash decides about something.
   */
  readonly machineId: string | undefined;
  /** The name of the node's time zone, as `Europe/Berlin`. This program may not know it. */
  readonly timeZone: string;
}

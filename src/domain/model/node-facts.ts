/** What a node knows of itself. */
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
  /** Why new settings are refused, while those from before are in force. */
  readonly settingsFault?: string;
}

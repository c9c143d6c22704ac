/** The place of this node among those that wait for a peer. */
export interface QueuePlace {
  /** 1: next. */
  readonly place: number;
  readonly waiting: number;
  /** About how long until its turn, in milliseconds; absent while no turn has ended there. */
  readonly waitMs?: number;
  /** The longest time until its turn, in milliseconds, when nothing tells more. */
  readonly mostMs?: number;
}

/**
 * What protects from older bundles, remembered beside the bundles themselves, so that it outlives
 * them.
 */
export interface Floors {
  /** The highest sequence that was activated of each stream. */
  readonly sequences: ReadonlyMap<string, number>;
  /**
   * The newest `created` of the adopted bundles of each stream, in milliseconds since the epoch.
   */
  readonly newestCreated: ReadonlyMap<string, number>;
  /** How often each stream was reset (`stickpin trust reset`). Default never. */
  readonly resets?: ReadonlyMap<string, number>;
  /**
   * Streams whose sequence is a lower bound only: a higher one may have been activated before the
   * floors were lost. Default none.
   */
  readonly doubted?: ReadonlySet<string>;
  /**
   * They were lost on this node: of a stream that is not in {@link sequences} nobody knows what was
   * activated.
   */
  readonly areLost: boolean;
}

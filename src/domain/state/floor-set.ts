/**
 * What protects from older bundles, remembered beside the bundles themselves, so that it outlives
 * them.
 */
export interface Floors {
  /** The highest sequence that was activated of each stream. */
  readonly sequences: ReadonlyMap<string, number>;
  /** The newest `created` of the adopted bundles of each stream, in milliseconds since the epoch. */
  readonly newestCreated: ReadonlyMap<string, number>;
  /** How often each stream was reset (`stickpin trust reset`). Default never. */
  readonly resets?: ReadonlyMap<string, number>;
  /**
   * They were lost on this node: of a stream that is not in {@link sequences} nobody knows what was
   * activated.
   */
  readonly areLost: boolean;
}

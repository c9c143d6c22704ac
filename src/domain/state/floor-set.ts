/**
 * What protects from older bundles, remembered beside the bundles themselves, so that it outlives
 * them.
 */
export interface Floors {
  /** The highest sequence that was activated of each stream. */
  readonly sequences: ReadonlyMap<string, number>;
  /**
   * The newest `created` of any bundle that was adopted, in milliseconds since the epoch; 0 when
   * none was.
   */
  readonly newestCreated: number;
  /**
   * They were lost on this node: of a stream that is not in {@link sequences} nobody knows what was
   * activated.
   */
  readonly areLost: boolean;
}

/** What a rogue peer is started with, as JSON. */
export interface RogueOrder {
  readonly kubeconfig: string;
  readonly clientCa: string;
  /** `10.77.0.9:9777`. */
  readonly listen: string;
  /** The node whose offers it repeats. */
  readonly honest: string;
  /**
   * `spoil`: one bit of each part of a blob is another one. `stall`: a blob never comes. `trickle`:
   * after some KiB a few bytes come each second. `relay`: all comes as it should.
   */
  readonly way: 'spoil' | 'stall' | 'trickle' | 'relay';
}

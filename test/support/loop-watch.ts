/** How the event loop fared meanwhile. */
export interface LoopWatch {
  /** How often it came round. */
  readonly turns: number;
  /** The longest time between two turns. */
  readonly longestMs: number;
}

/** Does `work` and watches the event loop of this thread until it is over. */
export async function watchLoop<T>(work: () => Promise<T>): Promise<LoopWatch & { readonly result: T }> {
  let turns = 0;
  let longestMs = 0;
  let last = performance.now();
  let isOver = false;
  const turn = (): void => {
    const now = performance.now();
    longestMs = Math.max(longestMs, now - last);
    last = now;
    turns += 1;
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);
  try {
    const result = await work();
    turn();
    return { result, turns, longestMs };
  } finally {
    isOver = true;
  }
}

/** The most waiting calls of one sender. A client that waits for answers never reaches it. */
const WAITING_PER_SENDER = 32;
/** The most calls that are served before more is read from the bus. */
const SERVED_AT_ONCE = 16;

/**
 * Serves one call of each sender in turn, so that a sender with many calls delays others by one
 * call at a time. New messages of the bus are read between calls.
 */
export class SenderTurns {
  private readonly queues = new Map<string, (() => void)[]>();
  private isScheduled = false;

  /** @returns false when too many of the sender wait; then `serve` is never called */
  add(sender: string, serve: () => void): boolean {
    const queue = this.queues.get(sender) ?? [];
    if (queue.length >= WAITING_PER_SENDER) return false;
    queue.push(serve);
    this.queues.set(sender, queue);
    this.schedule();
    return true;
  }

  /** Waiting calls are never served. */
  clear(): void {
    this.queues.clear();
  }

  private schedule(): void {
    if (this.isScheduled) return;
    this.isScheduled = true;
    setImmediate(() => {
      this.isScheduled = false;
      this.serveSome();
    });
  }

  private serveSome(): void {
    for (let served = 0; served < SERVED_AT_ONCE; served += 1) {
      const [next] = this.queues;
      if (next === undefined) return;
      const [sender, queue] = next;
      this.queues.delete(sender);
      const serve = queue.shift();
      if (queue.length > 0) this.queues.set(sender, queue);
      serve?.();
    }
    this.schedule();
  }
}

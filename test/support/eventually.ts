import { setTimeout as delay } from 'node:timers/promises';

/**
 * Waits until `check` no longer throws, looking every `everyMs` (default 5), for at most
 * `timeoutMs` (default 5 s); then throws what it threw last.
 */
export async function eventually<T>(check: () => T | Promise<T>, timeoutMs = 5_000, everyMs = 5): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await delay(everyMs);
    }
  }
}

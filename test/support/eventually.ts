import { setTimeout as delay } from 'node:timers/promises';

/**
 * Waits until `check` no longer throws, looking every `everyMs` (default 5), for at most
 * `timeoutMs`; then throws what it threw last. The default, 60 s, is for a machine that is busy
 * with other tests.
 */
export async function eventually<T>(check: () => T | Promise<T>, timeoutMs = 60_000, everyMs = 5): Promise<T> {
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

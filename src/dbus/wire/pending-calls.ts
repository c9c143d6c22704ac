/** Calls that wait for their reply, by serial. */
export interface PendingCalls {
  /**
   * Resolves to the body of the reply to `serial`. @throws BusErrorReply, the reason of `signal`,
   * or the error of {@link failAll}
   */
  add(serial: number, signal: AbortSignal): Promise<readonly unknown[]>;
  /** Whether a call waits for the reply to `serial`. */
  has(serial: number): boolean;
  resolve(serial: number, body: readonly unknown[]): void;
  reject(serial: number, reason: unknown): void;
  failAll(error: Error): void;
}

/** Creates an empty table. */
export function createPendingCalls(): PendingCalls {
  const calls = new Map<number, { resolve(body: readonly unknown[]): void; reject(reason: unknown): void }>();
  return {
    add: (serial, signal) =>
      new Promise((resolve, reject) => {
        const onAbort = (): void => {
          calls.delete(serial);
          reject(signal.reason);
        };
        signal.addEventListener('abort', onAbort, { once: true });
        const settled = (): void => signal.removeEventListener('abort', onAbort);
        calls.set(serial, {
          resolve: (body) => {
            settled();
            resolve(body);
          },
          reject: (reason) => {
            settled();
            reject(reason);
          },
        });
      }),
    has: (serial) => calls.has(serial),
    resolve: (serial, body) => {
      calls.get(serial)?.resolve(body);
      calls.delete(serial);
    },
    reject: (serial, reason) => {
      calls.get(serial)?.reject(reason);
      calls.delete(serial);
    },
    failAll: (error) => {
      for (const call of calls.values()) call.reject(error);
      calls.clear();
    },
  };
}

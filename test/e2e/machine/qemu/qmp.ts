import type { JsonSocket } from './json-socket.ts';

/** What QEMU tells by itself, as `DEVICE_DELETED` with `data.device`. */
export interface QmpEvent {
  readonly event: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** A client of the QEMU Machine Protocol (docs/interop/qmp-spec). */
export interface Qmp {
  /**
   * Runs a command and returns its `return` member. Rejects with the command and QEMU's words when
   * it fails.
   */
  execute(command: string, args?: Readonly<Record<string, unknown>>): Promise<unknown>;
  /**
   * The next event from now on that matches. Call it before the command that causes the event.
   * Rejects after `timeoutMs`.
   */
  nextEvent(name: string, matches: (data: QmpEvent['data']) => boolean, timeoutMs: number): Promise<QmpEvent>;
}

interface Answer {
  readonly id?: number;
  readonly return?: unknown;
  readonly error?: { readonly class: string; readonly desc: string };
  readonly event?: string;
  readonly data?: Record<string, unknown>;
}

/**
 * Greets QEMU on its monitor socket and returns the client. Pending commands and waits reject when
 * QEMU goes away.
 */
export async function connectQmp(socket: JsonSocket): Promise<Qmp> {
  const pending = new Map<number, { command: string; settle: (answer: Answer) => void }>();
  const listeners = new Set<(event: QmpEvent | undefined) => void>();
  let lastId = 0;
  socket.onValue((value) => {
    const answer = value as Answer;
    if (answer.event !== undefined)
      for (const tell of [...listeners]) tell({ event: answer.event, data: answer.data ?? {} });
    else if (answer.id !== undefined) pending.get(answer.id)?.settle(answer);
  });
  socket.onClose(() => {
    for (const { settle } of pending.values()) settle({ error: { class: 'Closed', desc: 'QEMU is gone' } });
    for (const tell of [...listeners]) tell(undefined);
  });

  const execute: Qmp['execute'] = (command, args = {}) =>
    new Promise((resolve, reject) => {
      lastId += 1;
      const id = lastId;
      const settle = (answer: Answer): void => {
        pending.delete(id);
        if (answer.error === undefined) resolve(answer.return);
        else reject(new Error(`QMP ${command} ${JSON.stringify(args)}: ${answer.error.desc}`));
      };
      pending.set(id, { command, settle });
      socket.send({ execute: command, arguments: args, id });
    });

  const nextEvent: Qmp['nextEvent'] = (name, matches, timeoutMs) =>
    new Promise((resolve, reject) => {
      const fail = (why: string): void => reject(new Error(`waiting for QMP event ${name}: ${why}`));
      const timer = setTimeout(() => end(() => fail(`not within ${timeoutMs} ms`)), timeoutMs);
      const listener = (event: QmpEvent | undefined): void => {
        if (event === undefined) end(() => fail('QEMU is gone'));
        else if (event.event === name && matches(event.data)) end(() => resolve(event));
      };
      const end = (settle: () => void): void => {
        clearTimeout(timer);
        listeners.delete(listener);
        settle();
      };
      listeners.add(listener);
    });

  await execute('qmp_capabilities');
  return { execute, nextEvent };
}

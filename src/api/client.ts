import { type BusCall, busCall, connectMessageBus, type MessageBus } from '../dbus/message-bus.ts';
import { AppError } from '../platform/app-error.ts';
import { withDeadline } from '../platform/async/abort.ts';
import { asApiError, busUnreachable, daemonTimeout } from './client-errors.ts';
import { INTERFACE, OBJECT_PATH, SERVICE } from './names.ts';

/** The daemon, as the command line sees it. Every method throws AppError `api/unreachable` (`wait`) when no daemon answers. */
export interface ApiClient {
  /** The document of `stickpin status --json`. */
  status(signal: AbortSignal): Promise<unknown>;
  /** The document of `stickpin list --json`. */
  list(signal: AbortSignal): Promise<unknown>;
  /** `override`: even if rules of the release hold its activation. @throws AppError `engine/activation-held` where they do without it */
  activate(bundle: string, signal: AbortSignal, options?: { readonly override: boolean }): Promise<void>;
  /** Asks for the activation of the fallback; resolves to its `name@version`. `stream`: empty for the only one. */
  rollback(stream: string, signal: AbortSignal): Promise<string>;
  unpin(
    bundle: string,
    options: { readonly removeImages: boolean; readonly force: boolean },
    signal: AbortSignal,
  ): Promise<void>;
  /** Gives up all pins that belong to no known release; resolves to what was done, in a sentence. */
  unpinUnclaimed(force: boolean, signal: AbortSignal): Promise<string>;
  cancel(signal: AbortSignal): Promise<void>;
  /** Lines of the history, oldest first; of all bundles when `bundle` is empty. */
  history(bundle: string, signal: AbortSignal): Promise<unknown>;
  /** Approves a bundle. @returns what that does, in a sentence. */
  approve(bundle: string, signal: AbortSignal): Promise<string>;
  /** Rejects a bundle. @returns what that does, in a sentence. */
  reject(bundle: string, signal: AbortSignal): Promise<string>;
  /** Lifts the stored revocation of a key. @returns what that does, in a sentence. */
  restoreKey(keyId: string, signal: AbortSignal): Promise<string>;
  rescan(signal: AbortSignal): Promise<void>;
  /** Takes the medium at an absolute path; resolves to what it is called. */
  load(path: string, signal: AbortSignal): Promise<string>;
  /** Calls `listener` whenever the daemon announces changed properties, until `signal` aborts. Resolves when it listens. */
  watch(listener: () => void, signal: AbortSignal): Promise<void>;
  close(): void;
}

/** A bus or a daemon that has not answered a question for this long does not answer. */
const ANSWER_MS = 10_000;

const DEFAULT_ADDRESS = 'unix:path=/run/dbus/system_bus_socket';
const PROPERTIES = 'org.freedesktop.DBus.Properties';

/**
 * Connects to the system bus, at `DBUS_SYSTEM_BUS_ADDRESS` if that is set.
 *
 * @param answerMs how long a question may take, activation aside; default 10 s.
 * @throws AppError `api/unreachable` (`wait`) when there is no bus, or one that does not answer.
 */
export async function connectApi(
  env: NodeJS.ProcessEnv,
  signal: AbortSignal,
  answerMs = ANSWER_MS,
): Promise<ApiClient> {
  const address = env.DBUS_SYSTEM_BUS_ADDRESS ?? DEFAULT_ADDRESS;
  const connecting = withDeadline(`The bus at ${address}`, answerMs, signal, (on) => connectMessageBus(address, on));
  const bus = await connecting.catch((error: unknown) => {
    signal.throwIfAborted();
    throw busUnreachable(error);
  });
  const call = (member: string, on: AbortSignal, ...args: readonly (string | boolean)[]) =>
    callDaemon(
      bus,
      {
        destination: SERVICE,
        path: OBJECT_PATH,
        interface: INTERFACE,
        member,
        signature: args.map((arg) => (typeof arg === 'string' ? 's' : 'b')).join(''),
        body: args,
      },
      on,
    );
  const ask = (member: string, parent: AbortSignal, ...args: readonly string[]) =>
    withDeadline('The daemon', answerMs, parent, (on) => call(member, on, ...args)).catch((error: unknown) => {
      parent.throwIfAborted();
      throw error instanceof AppError && error.code === 'platform/deadline' ? daemonTimeout(error) : error;
    });
  return {
    status: async (on) => parse(await ask('GetStatus', on)),
    list: async (on) => parse(await ask('ListBundles', on)),
    activate: async (bundle, on, options) => {
      await call(options?.override ? 'ActivateOverride' : 'Activate', on, bundle);
    },
    rollback: async (stream, on) => String((await call('Rollback', on, stream))[0]),
    unpin: async (bundle, { removeImages, force }, on) => {
      await call('Unpin', on, bundle, removeImages, force);
    },
    unpinUnclaimed: async (force, on) => String((await call('UnpinUnclaimed', on, force))[0]),
    cancel: async (on) => {
      await ask('Cancel', on);
    },
    history: async (bundle, on) => parse(await ask('GetHistory', on, bundle)),
    approve: async (bundle, on) => String((await ask('Approve', on, bundle))[0]),
    reject: async (bundle, on) => String((await ask('Reject', on, bundle))[0]),
    restoreKey: async (keyId, on) => String((await ask('RestoreKey', on, keyId))[0]),
    rescan: async (on) => {
      await ask('Rescan', on);
    },
    load: async (path, on) => String((await call('Load', on, path))[0]),
    watch: async (listener, until) => {
      const off = bus.onSignal((received) => {
        if (received.path === OBJECT_PATH && received.member === 'PropertiesChanged') listener();
      });
      until.addEventListener('abort', off, { once: true });
      const rule = `type='signal',sender='${SERVICE}',path='${OBJECT_PATH}',interface='${PROPERTIES}'`;
      await callDaemon(bus, busCall('AddMatch', 's', [rule]), until);
    },
    close: () => bus.close(),
  };
}

function parse([text]: readonly unknown[]): unknown {
  return JSON.parse(String(text));
}

async function callDaemon(bus: MessageBus, call: BusCall, signal: AbortSignal): Promise<readonly unknown[]> {
  try {
    return await bus.call(call, signal);
  } catch (error) {
    signal.throwIfAborted();
    throw asApiError(error);
  }
}

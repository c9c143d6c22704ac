import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { StatusReport } from '../domain/report/status-schema.ts';
import {
  type BusCall,
  BusErrorReply,
  type BusSignal,
  busCall,
  connectMessageBus,
  type MessageBus,
} from '../host/bus/message-bus.ts';
import { BUS_NAME } from '../host/bus/system-bus.ts';
import { AppError, reasonOf } from '../platform/app-error.ts';
import { withDeadline } from '../platform/async/abort.ts';
import type { AnswerOf, ArgsOf, MethodName } from './backend.ts';
import {
  busNameOf,
  codeOfErrorName,
  MANAGER,
  METHODS,
  type MethodContract,
  OBJECT_MANAGER,
  OBJECT_PATH,
  PROPERTIES,
  SERVICE,
} from './contract.ts';
import { reportOfObjects } from './properties/objects.ts';
import { decodeObjects } from './properties/properties.ts';
import { fieldsOf } from './wire-types.ts';

type ClientMethods = {
  readonly [M in MethodName]: (args: ArgsOf<M>, signal: AbortSignal) => AnswerOf<M>;
};

/**
 * The daemon for the command line. Every method throws AppError `api/unreachable` (`wait`) when no
 * daemon answers, and the AppError of the daemon when it refuses.
 */
export interface ApiClient extends ClientMethods {
  /**
   * The state, from the properties of all objects. @throws AppError `api/starting` (`retry`) before
   * there is one
   */
  report(signal: AbortSignal): Promise<StatusReport>;
  /**
   * Calls `listener` for each announced change, when the daemon ends or starts, and when the
   * connection to the bus ends, until `signal` aborts. Resolves when it is subscribed.
   */
  watch(listener: () => void, signal: AbortSignal): Promise<void>;
  close(): void;
}

const ANSWER_MS = 10_000;

const DEFAULT_ADDRESS = 'unix:path=/run/dbus/system_bus_socket';

/** The state is read again when a bundle appears or disappears between the two answers. */
const READS = 5;

interface Connection {
  readonly bus: MessageBus;
  readonly answerMs: number;
}

/**
 * Connects to the system bus, at `DBUS_SYSTEM_BUS_ADDRESS` if that is set.
 *
 * @param answerMs how long an answer may take, except for long methods. Default 10 s
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
  const connection = { bus, answerMs };
  return {
    ...methodsOn(connection),
    report: (on) => readReport(connection, on),
    watch: (listener, until) => watch(bus, listener, until),
    close: () => bus.close(),
  };
}

/** The cast is safe: the members are those of {@link METHODS}, with their arguments and results. */
function methodsOn(connection: Connection): ClientMethods {
  const methods = Object.entries<MethodContract>(METHODS).map(([key, method]) => [
    key,
    (args: object, signal: AbortSignal) => callMethod(key, method, args, connection, signal),
  ]);
  return Object.fromEntries(methods) as ClientMethods;
}

async function callMethod(
  key: string,
  { args, result, isLong = false }: MethodContract,
  values: object,
  connection: Connection,
  signal: AbortSignal,
): Promise<unknown> {
  const parameters = fieldsOf(args);
  const call = ofDaemon(
    MANAGER,
    busNameOf(key),
    parameters.map(([, type]) => type.signature).join(''),
    parameters.map(([name, type]) => type.encode(Reflect.get(values, name))),
  );
  const [returned] = Object.values(result);
  const [answer] = isLong ? await callBus(connection.bus, call, signal) : await callInTime(connection, call, signal);
  return returned === undefined ? undefined : decoded(() => returned.decode(answer));
}

async function readReport(connection: Connection, signal: AbortSignal): Promise<StatusReport> {
  for (let reads = 0; reads < READS; reads += 1) {
    const [[manager], [managed]] = await Promise.all([
      callInTime(connection, ofDaemon(PROPERTIES, 'GetAll', 's', [MANAGER]), signal),
      callInTime(connection, ofDaemon(OBJECT_MANAGER, 'GetManagedObjects', '', []), signal),
    ]);
    const objects = decoded(() => decodeObjects(manager, managed));
    if (!objects.manager.started) throw daemonStarting();
    const report = reportOfObjects(objects);
    if (report !== undefined) return report;
  }
  throw daemonTimeout(undefined);
}

async function watch(bus: MessageBus, listener: () => void, until: AbortSignal): Promise<void> {
  const isOurs = ({ path, interface: iface }: Omit<BusSignal, 'body'>) =>
    iface === BUS_NAME ||
    ((path === OBJECT_PATH || path.startsWith(`${OBJECT_PATH}/`)) &&
      [PROPERTIES, OBJECT_MANAGER, MANAGER].includes(iface));
  for (const off of [bus.onSignal(() => listener(), isOurs), bus.onClose(() => listener())]) {
    until.addEventListener('abort', off, { once: true });
  }
  const rule = `type='signal',sender='${SERVICE}',path_namespace='${OBJECT_PATH}'`;
  const ownerRule = `type='signal',sender='${BUS_NAME}',member='NameOwnerChanged',arg0='${SERVICE}'`;
  for (const one of [rule, ownerRule]) await callBus(bus, busCall('AddMatch', 's', [one]), until);
}

function ofDaemon(iface: string, member: string, signature: string, body: readonly unknown[]): BusCall {
  return { destination: SERVICE, path: OBJECT_PATH, interface: iface, member, signature, body };
}

async function callInTime(
  { bus, answerMs }: Connection,
  call: BusCall,
  parent: AbortSignal,
): Promise<readonly unknown[]> {
  try {
    return await withDeadline('The daemon', answerMs, parent, (on) => callBus(bus, call, on));
  } catch (error) {
    parent.throwIfAborted();
    throw error instanceof AppError && error.code === 'platform/deadline' ? daemonTimeout(error) : error;
  }
}

async function callBus(bus: MessageBus, call: BusCall, signal: AbortSignal): Promise<readonly unknown[]> {
  try {
    return await bus.call(call, signal);
  } catch (error) {
    signal.throwIfAborted();
    throw asApiError(error);
  }
}

/** @throws AppError `api/failed` (`reject`) */
function decoded<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw asApiError(error);
  }
}

/** The codes of the client. Errors of the daemon keep their codes. */
type ApiErrorCode = 'api/unreachable' | 'api/starting' | 'api/denied' | 'api/failed';

const DBUS_ERROR = 'org.freedesktop.DBus.Error.';
const JOURNAL = "'journalctl -u stickpin' says what it does";

/** How the daemon is started, without full stop. A unit that is masked can't be started. */
export function startAdvice(etc = '/etc/systemd/system', run = '/run/systemd/system'): string {
  const isMasked = [etc, run].some((folder) => {
    try {
      // A link to /dev/null, or an empty file (systemd.unit(5)).
      const unit = statSync(join(folder, 'stickpin.service'));
      return !unit.isDirectory() && unit.size === 0;
    } catch {
      return false;
    }
  });
  return isMasked
    ? "Its unit is masked: run 'systemctl unmask stickpin', then 'systemctl start stickpin'"
    : "Start it with 'systemctl start stickpin'";
}

/** Whether an error says that no daemon runs, though the bus answers. */
export function isNotRunning(error: unknown): error is AppError {
  if (!(error instanceof AppError) || !(error.cause instanceof BusErrorReply)) return false;
  return error.code === 'api/unreachable' && NO_OWNER.has(error.cause.errorName);
}

/** Whether an error says that the connection to the bus has ended. */
export function isBusGone({ code, cause }: AppError): boolean {
  return code === 'api/unreachable' && cause instanceof AppError && cause.code === 'platform/bus-unreachable';
}

const NO_OWNER: ReadonlySet<string> = new Set(['ServiceUnknown', 'NameHasNoOwner'].map((name) => DBUS_ERROR + name));

/** The error of a failed call, in words that need no knowledge of D-Bus. */
export function asApiError(error: unknown): AppError {
  if (error instanceof AppError && error.code === 'api/unreadable') return otherVersion(error);
  if (!(error instanceof BusErrorReply)) return busUnreachable(error);
  const code = codeOfErrorName(error.errorName);
  if (code !== undefined) return new AppError({ code, message: error.message, disposition: 'reject', cause: error });
  const name = error.errorName.startsWith(DBUS_ERROR) ? error.errorName.slice(DBUS_ERROR.length) : error.errorName;
  switch (name) {
    case 'ServiceUnknown':
    case 'NameHasNoOwner':
      return unreachable(
        `The stickpin daemon is not running. ${startAdvice()}; 'journalctl -u stickpin' says why it ended`,
        error,
      );
    case 'NoReply':
    case 'Disconnected':
      return unreachable(`The stickpin daemon ended before it answered. Try again in a moment; ${JOURNAL}`, error);
    case 'Timeout':
    case 'TimedOut':
      return daemonTimeout(error);
    case 'AccessDenied':
    case 'InteractiveAuthorizationRequired':
      return new AppError({
        code: 'api/denied',
        message: 'Only root may do this',
        disposition: 'reject',
        cause: error,
      });
    case 'UnknownMethod':
    case 'UnknownInterface':
    case 'UnknownObject':
    case 'InvalidArgs':
    case 'UnknownProperty':
      return otherVersion(error);
    default:
      return failed(`The stickpin daemon answered with an error: ${reasonOf(error)}; ${JOURNAL}`, error);
  }
}

/** There is no bus, or the connection to it broke. */
export function busUnreachable(cause: unknown): AppError<ApiErrorCode> {
  const why = cause instanceof AppError && cause.code === 'platform/deadline' ? 'does not answer' : "can't be reached";
  return unreachable(
    `The D-Bus system bus ${why}, so that the stickpin daemon can't be asked. Look at it with 'systemctl status dbus' and start it with 'systemctl start dbus'`,
    cause,
  );
}

export function daemonTimeout(cause: unknown): AppError<ApiErrorCode> {
  return unreachable(
    `The stickpin daemon does not answer. Try again in a moment; if that does not help, restart it with 'systemctl restart stickpin'. ${JOURNAL}`,
    cause,
  );
}

/** The daemon has not finished its first round. */
function daemonStarting(): AppError<ApiErrorCode> {
  const message = 'The daemon is still starting; try again in a moment';
  return new AppError({ code: 'api/starting', message, disposition: 'retry' });
}

/** The answer does not match the contract of this command. */
function otherVersion(cause: unknown): AppError<ApiErrorCode> {
  return failed(
    "The daemon that runs is of another version than this command. Restart it with 'systemctl restart stickpin'",
    cause,
  );
}

function unreachable(message: string, cause: unknown): AppError<ApiErrorCode> {
  return new AppError({ code: 'api/unreachable', message, disposition: 'wait', cause });
}

function failed(message: string, cause: unknown): AppError<ApiErrorCode> {
  return new AppError({ code: 'api/failed', message, disposition: 'reject', cause });
}

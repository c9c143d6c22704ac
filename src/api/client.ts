import { type BusCall, type BusSignal, busCall, connectMessageBus, type MessageBus } from '../dbus/message-bus.ts';
import { BUS_NAME } from '../dbus/signal-match.ts';
import type { StatusReport } from '../domain/report/report.ts';
import { AppError } from '../platform/app-error.ts';
import { withDeadline } from '../platform/async/abort.ts';
import { OBJECT_MANAGER, PROPERTIES } from './api-bus.ts';
import type { AnswerOf, ArgsOf, MethodName } from './backend.ts';
import { busNameOf } from './bus-name.ts';
import { asApiError, busUnreachable, daemonStarting, daemonTimeout } from './client-errors.ts';
import { MANAGER, METHODS, type MethodContract, OBJECT_PATH, SERVICE } from './contract.ts';
import { reportOfObjects } from './properties/objects.ts';
import { decodeObjects } from './properties/property-tables.ts';
import { fieldsOf } from './wire-types.ts';

/** The methods of the contract, as calls to the daemon. */
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
   * Calls `listener` for each announced change, and when the daemon ends or starts, until `signal`
   * aborts. Resolves when it is subscribed.
   */
  watch(listener: () => void, signal: AbortSignal): Promise<void>;
  close(): void;
}

/** How long the bus or the daemon may take to answer. */
const ANSWER_MS = 10_000;

const DEFAULT_ADDRESS = 'unix:path=/run/dbus/system_bus_socket';

/**
 * How often the state is read again when a bundle appears or disappears between the two answers.
 */
const READS = 5;

/** A connection to the daemon. */
interface Connection {
  readonly bus: MessageBus;
  /** How long an answer may take, in milliseconds. */
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
  const [answer] = isLong ? await callBus(connection.bus, call, signal) : await ask(connection, call, signal);
  return returned === undefined ? undefined : decoded(() => returned.decode(answer));
}

async function readReport(connection: Connection, signal: AbortSignal): Promise<StatusReport> {
  for (let reads = 0; reads < READS; reads += 1) {
    const [[manager], [managed]] = await Promise.all([
      ask(connection, ofDaemon(PROPERTIES, 'GetAll', 's', [MANAGER]), signal),
      ask(connection, ofDaemon(OBJECT_MANAGER, 'GetManagedObjects', '', []), signal),
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
      (iface === PROPERTIES || iface === OBJECT_MANAGER));
  const off = bus.onSignal(() => listener(), isOurs);
  until.addEventListener('abort', off, { once: true });
  const rule = `type='signal',sender='${SERVICE}',path_namespace='${OBJECT_PATH}'`;
  const ownerRule = `type='signal',sender='${BUS_NAME}',member='NameOwnerChanged',arg0='${SERVICE}'`;
  for (const one of [rule, ownerRule]) await callBus(bus, busCall('AddMatch', 's', [one]), until);
}

function ofDaemon(iface: string, member: string, signature: string, body: readonly unknown[]): BusCall {
  return { destination: SERVICE, path: OBJECT_PATH, interface: iface, member, signature, body };
}

/** A call with the time limit for answers. */
async function ask({ bus, answerMs }: Connection, call: BusCall, parent: AbortSignal): Promise<readonly unknown[]> {
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

/** Decodes an answer of the daemon. @throws AppError `api/failed` (`reject`) */
function decoded<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw asApiError(error);
  }
}

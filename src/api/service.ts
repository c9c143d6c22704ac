import type { Unsubscribe } from '../engine/ports.ts';
import { AppError, reasonOf } from '../platform/app-error.ts';
import type { Log } from '../platform/log.ts';
import {
  type BusCall,
  BusErrorReply,
  type BusReply,
  busCall,
  type CallHandler,
  type IncomingCall,
  type OutgoingSignal,
  variant,
} from '../platform/message-bus.ts';
import type { ApiBackend, ApiProperties } from './backend.ts';
import { introspectionXml } from './introspection.ts';
import { errorNameOf, INTERFACE, OBJECT_PATH, SERVICE } from './names.ts';

/** The bus, as far as the service needs it; host/ implements it. */
interface ApiBus {
  call(call: BusCall, signal: AbortSignal): Promise<readonly unknown[]>;
  serve(handler: CallHandler): void;
  emit(signal: OutgoingSignal): void;
  /** Calls `listener` after each connection, since a name is lost with the connection that owned it. */
  onConnected(listener: () => void): Unsubscribe;
}

/** What {@link createApiService} needs. */
export interface ApiServiceDeps {
  readonly bus: ApiBus;
  readonly backend: ApiBackend;
  readonly log: Log;
}

/** The D-Bus service, as long as it is not disposed of. */
export interface ApiService {
  /** Ends running calls and gives the name back. */
  dispose(): Promise<void>;
}

const PROPERTIES = 'org.freedesktop.DBus.Properties';
const DO_NOT_QUEUE = 4;
const nothing: BusReply = { signature: '', body: [] };

/** Serves `io.stickpin1` and keeps serving it across reconnections. Who may call what is for the bus policy to say (io.stickpin1.conf). */
export function createApiService({ bus, backend, log }: ApiServiceDeps): ApiService {
  const stop = new AbortController();
  const own = (): void => {
    bus.call(busCall('RequestName', 'su', [SERVICE, DO_NOT_QUEUE]), stop.signal).then(
      ([result]) => {
        // 3: EXISTS. Another daemon runs; two would fight over media, pins and the port.
        if (result === 3)
          log.error({ name: SERVICE }, `The D-Bus name ${SERVICE} is taken: another stickpin is running`);
      },
      (err: unknown) => {
        if (!stop.signal.aborted && !isUnreachable(err))
          log.error({ err }, `The D-Bus name ${SERVICE} could not be taken`);
      },
    );
  };
  bus.serve((call) => answer(call, backend, stop.signal));
  const stops = [bus.onConnected(own), announceChanges(bus, backend)];
  own();
  return {
    dispose: async () => {
      for (const each of stops) each();
      stop.abort(new AppError({ code: 'api/stopping', message: 'The daemon is stopping', disposition: 'retry' }));
      await bus.call(busCall('ReleaseName', 's', [SERVICE]), AbortSignal.timeout(1_000)).catch(() => undefined);
    },
  };
}

function isUnreachable(error: unknown): boolean {
  return error instanceof AppError && error.code === 'platform/bus-unreachable';
}

/** `PropertiesChanged` with those that did, once for all changes of one turn of the event loop. */
function announceChanges(bus: ApiBus, backend: ApiBackend): Unsubscribe {
  let last = encode(backend.properties());
  let scheduled = false;
  const announce = (): void => {
    scheduled = false;
    const now = encode(backend.properties());
    const changed = Object.keys(now).filter((name) => JSON.stringify(now[name]) !== JSON.stringify(last[name]));
    last = now;
    if (changed.length === 0) return;
    bus.emit({
      path: OBJECT_PATH,
      interface: PROPERTIES,
      member: 'PropertiesChanged',
      signature: 'sa{sv}as',
      body: [INTERFACE, Object.fromEntries(changed.map((name) => [name, now[name]])), []],
    });
  };
  return backend.onChange(() => {
    if (!scheduled) setImmediate(announce);
    scheduled = true;
  });
}

/** The properties as D-Bus variants, by their D-Bus names. */
function encode(properties: ApiProperties): Record<string, unknown> {
  const { percentage, message, depth } = properties.progress;
  return {
    Status: variant('s', properties.status),
    Operation: variant('s', properties.operation),
    Progress: variant('(isi)', [Math.round(percentage), message, depth]),
    LastError: variant('s', properties.lastError),
    Version: variant('s', properties.version),
  };
}

async function answer(call: IncomingCall, backend: ApiBackend, signal: AbortSignal): Promise<BusReply> {
  try {
    const reply = await dispatch(call, backend, signal);
    if (reply !== undefined) return reply;
  } catch (error) {
    if (error instanceof BusErrorReply) throw error;
    throw new BusErrorReply(errorNameOf(error instanceof AppError ? error.code : ''), reasonOf(error));
  }
  throw new BusErrorReply(
    'org.freedesktop.DBus.Error.UnknownMethod',
    `There is no method ${call.member}(${call.signature}) at ${call.path}`,
  );
}

async function dispatch(call: IncomingCall, backend: ApiBackend, signal: AbortSignal): Promise<BusReply | undefined> {
  const [first, second] = call.body.map(String);
  if (call.path !== OBJECT_PATH) return call.member === 'Introspect' ? introspectParent(call.path) : undefined;
  switch (`${call.interface}.${call.member}(${call.signature})`) {
    case `${INTERFACE}.GetStatus()`:
      return json(await backend.status(signal));
    case `${INTERFACE}.ListBundles()`:
      return json(await backend.list(signal));
    case `${INTERFACE}.Activate(s)`:
      await backend.activate(String(first), signal);
      return nothing;
    case `${INTERFACE}.Rollback(s)`:
      return { signature: 's', body: [await backend.rollback(String(first), signal)] };
    case `${INTERFACE}.Unpin(sbb)`:
      await backend.unpin(String(first), { removeImages: call.body[1] === true, force: call.body[2] === true }, signal);
      return nothing;
    case `${INTERFACE}.Cancel()`:
      await backend.cancel(signal);
      return nothing;
    case `${INTERFACE}.GetHistory(s)`:
      return json(await backend.history(String(first), signal));
    case `${INTERFACE}.Approve(s)`:
      return { signature: 's', body: [await backend.approve(String(first), signal)] };
    case `${INTERFACE}.Reject(s)`:
      return { signature: 's', body: [await backend.reject(String(first), signal)] };
    case `${INTERFACE}.Rescan()`:
      await backend.rescan(signal);
      return nothing;
    case `${INTERFACE}.Load(s)`:
      return { signature: 's', body: [await backend.load(String(first), signal)] };
    case `${PROPERTIES}.Get(ss)`:
      return { signature: 'v', body: [propertyOf(backend, String(first), String(second))] };
    case `${PROPERTIES}.GetAll(s)`:
      return { signature: 'a{sv}', body: [first === INTERFACE || first === '' ? encode(backend.properties()) : {}] };
    case `${PROPERTIES}.Set(ssv)`:
      throw new BusErrorReply('org.freedesktop.DBus.Error.PropertyReadOnly', `${second} can't be set`);
    case 'org.freedesktop.DBus.Introspectable.Introspect()':
      return { signature: 's', body: [introspectionXml] };
    case 'org.freedesktop.DBus.Peer.Ping()':
      return nothing;
    default:
      return undefined;
  }
}

function json(document: unknown): BusReply {
  return { signature: 's', body: [JSON.stringify(document)] };
}

function propertyOf(backend: ApiBackend, iface: string, name: string): unknown {
  const values = encode(backend.properties());
  if (iface === INTERFACE && Object.hasOwn(values, name)) return values[name];
  throw new BusErrorReply('org.freedesktop.DBus.Error.UnknownProperty', `There is no property ${iface}.${name}`);
}

/** Tells tools that walk the tree from `/` where the object is. */
function introspectParent(path: string): BusReply | undefined {
  const prefix = path === '/' ? '/' : `${path}/`;
  if (!OBJECT_PATH.startsWith(prefix)) return undefined;
  const [child] = OBJECT_PATH.slice(prefix.length).split('/');
  return { signature: 's', body: [`<node><node name="${child}"/></node>`] };
}

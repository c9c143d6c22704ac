import {
  type BusCall,
  BusErrorReply,
  type BusReply,
  busCall,
  type CallCheck,
  type CallHandler,
  type CallHeader,
  type IncomingCall,
  type OutgoingSignal,
  variant,
} from '../dbus/message-bus.ts';
import { AppError, reasonOf } from '../platform/app-error.ts';
import type { Log } from '../platform/log.ts';
import { oneLine, plainDocument, plainLines } from '../platform/plain-text.ts';
import type { Unsubscribe } from '../platform/subscription.ts';
import type { ApiBackend, ApiProperties } from './backend.ts';
import { introspectionXml } from './introspection.ts';
import { errorNameOf, INTERFACE, OBJECT_PATH, SERVICE } from './names.ts';

/** The bus, as far as the service needs it; host/ implements it. */
interface ApiBus {
  call(call: BusCall, signal: AbortSignal): Promise<readonly unknown[]>;
  serve(handler: CallHandler, check: CallCheck): void;
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
const INTROSPECT = 'org.freedesktop.DBus.Introspectable.Introspect()';
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
  bus.serve((call) => answer(call, bus, backend, stop.signal), refusalOf);
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

/** The error for a call that is not answered, whatever its arguments: undefined when there is such a method. */
function refusalOf(call: CallHeader): BusErrorReply | undefined {
  if (methodOf(call) !== undefined) return undefined;
  if (call.path === OBJECT_PATH && keyOf(call) === `${PROPERTIES}.Set(ssv)`) {
    return new BusErrorReply('org.freedesktop.DBus.Error.PropertyReadOnly', 'No property here can be set');
  }
  return new BusErrorReply(
    'org.freedesktop.DBus.Error.UnknownMethod',
    `There is no method ${call.member}(${call.signature}) at ${call.path}`,
  );
}

async function answer(call: IncomingCall, bus: ApiBus, backend: ApiBackend, signal: AbortSignal): Promise<BusReply> {
  const method = methodOf(call);
  if (method === undefined) throw refusalOf(call);
  try {
    return await method({ bus, backend, sender: call.sender, body: call.body, signal });
  } catch (error) {
    if (error instanceof BusErrorReply) throw error;
    throw new BusErrorReply(errorNameOf(error instanceof AppError ? error.code : ''), oneLine(reasonOf(error)));
  }
}

/** What a method works on. `body` has the types that the method is listed with. */
interface MethodCall {
  readonly bus: ApiBus;
  readonly backend: ApiBackend;
  /** The unique name of who calls. */
  readonly sender: string;
  readonly body: readonly unknown[];
  readonly signal: AbortSignal;
}

type Method = (call: MethodCall) => Promise<BusReply> | BusReply;

/** Every method of the object by interface, name and signature. A call of any other is refused before its arguments are read. */
const METHODS: ReadonlyMap<string, Method> = new Map<string, Method>([
  [`${INTERFACE}.GetStatus()`, async ({ backend, signal }) => json(await backend.status(signal))],
  [`${INTERFACE}.ListBundles()`, async ({ backend, signal }) => json(await backend.list(signal))],
  [`${INTERFACE}.GetHistory(s)`, async ({ backend, body, signal }) => json(await backend.history(first(body), signal))],
  [`${INTERFACE}.Activate(s)`, ({ backend, body, signal }) => done(backend.activate(first(body), signal))],
  [
    `${INTERFACE}.ActivateOverride(s)`,
    ({ backend, body, signal }) => done(backend.activate(first(body), signal, { override: true })),
  ],
  [`${INTERFACE}.Rollback(s)`, async ({ backend, body, signal }) => text(await backend.rollback(first(body), signal))],
  [`${INTERFACE}.Unpin(sbb)`, unpin],
  [`${INTERFACE}.UnpinUnclaimed(b)`, unpinUnclaimed],
  [`${INTERFACE}.Cancel()`, ({ backend, signal }) => done(backend.cancel(signal))],
  [`${INTERFACE}.Approve(s)`, async ({ backend, body, signal }) => text(await backend.approve(first(body), signal))],
  [`${INTERFACE}.Reject(s)`, async ({ backend, body, signal }) => text(await backend.reject(first(body), signal))],
  [`${INTERFACE}.RestoreKey(s)`, restoreKey],
  [`${INTERFACE}.Rescan()`, ({ backend, signal }) => done(backend.rescan(signal))],
  [`${INTERFACE}.Load(s)`, async ({ backend, body, signal }) => text(await backend.load(first(body), signal))],
  [`${PROPERTIES}.Get(ss)`, getProperty],
  [`${PROPERTIES}.GetAll(s)`, getAllProperties],
  [INTROSPECT, () => text(introspectionXml)],
  ['org.freedesktop.DBus.Peer.Ping()', () => nothing],
]);

function keyOf({ interface: iface, member, signature }: CallHeader): string {
  return `${iface}.${member}(${signature})`;
}

function methodOf(call: CallHeader): Method | undefined {
  if (call.path === OBJECT_PATH) return METHODS.get(keyOf(call));
  const parent = keyOf(call) === INTROSPECT ? introspectionOfParent(call.path) : undefined;
  return parent === undefined ? undefined : () => text(parent);
}

async function unpin({ backend, body, signal }: MethodCall): Promise<BusReply> {
  await backend.unpin(first(body), { removeImages: body[1] === true, force: body[2] === true }, signal);
  return nothing;
}

async function unpinUnclaimed({ backend, body, signal }: MethodCall): Promise<BusReply> {
  return text(await backend.unpinUnclaimed(body[0] === true, signal));
}

async function restoreKey({ bus, backend, sender, body, signal }: MethodCall): Promise<BusReply> {
  return text(await backend.restoreKey(first(body), await uidOf(sender, bus, signal), signal));
}

/** The user behind a caller, as the bus says; undefined when it can't tell, as when the caller has gone. */
async function uidOf(sender: string, bus: ApiBus, signal: AbortSignal): Promise<number | undefined> {
  try {
    const [uid] = await bus.call(busCall('GetConnectionUnixUser', 's', [sender]), signal);
    return typeof uid === 'number' ? uid : undefined;
  } catch {
    signal.throwIfAborted();
    return undefined;
  }
}

function getProperty({ backend, body }: MethodCall): BusReply {
  return { signature: 'v', body: [propertyOf(backend, first(body), String(body[1]))] };
}

function getAllProperties({ backend, body }: MethodCall): BusReply {
  const isOurs = first(body) === INTERFACE || first(body) === '';
  return { signature: 'a{sv}', body: [isOurs ? encode(backend.properties()) : {}] };
}

function first(body: readonly unknown[]): string {
  return String(body[0]);
}

async function done(work: Promise<void>): Promise<BusReply> {
  await work;
  return nothing;
}

function text(value: string): BusReply {
  return { signature: 's', body: [plainLines(value)] };
}

function json(document: unknown): BusReply {
  return text(JSON.stringify(plainDocument(document)));
}

function propertyOf(backend: ApiBackend, iface: string, name: string): unknown {
  const values = encode(backend.properties());
  if (iface === INTERFACE && Object.hasOwn(values, name)) return values[name];
  throw new BusErrorReply('org.freedesktop.DBus.Error.UnknownProperty', `There is no property ${iface}.${name}`);
}

/** Tells tools that walk the tree from `/` where the object is; undefined for a path that does not lead to it. */
function introspectionOfParent(path: string): string | undefined {
  const prefix = path === '/' ? '/' : `${path}/`;
  if (!OBJECT_PATH.startsWith(prefix)) return undefined;
  const [child] = OBJECT_PATH.slice(prefix.length).split('/');
  return `<node><node name="${child}"/></node>`;
}

import type { StatusReport } from '../domain/report/status-schema.ts';
import { writeBody } from '../host/bus/frames.ts';
import {
  BusErrorReply,
  type BusReply,
  busCall,
  type CallHeader,
  type IncomingCall,
  NO_REPLY_EXPECTED,
} from '../host/bus/message-bus.ts';
import { AppError, reasonOf } from '../platform/app-error.ts';
import type { Clock } from '../platform/clock.ts';
import type { Log } from '../platform/log.ts';
import { oneLine } from '../platform/plain-text.ts';
import type { Unsubscribe } from '../platform/subscription.ts';
import { type Authority, authorize, CallerBudget } from './authority.ts';
import type { ApiBackend, MethodName } from './backend.ts';
import {
  type ApiBus,
  BUNDLES_PATH,
  busNameOf,
  errorNameOf,
  INTROSPECTABLE,
  MANAGER,
  METHODS,
  type MethodContract,
  OBJECT_MANAGER,
  OBJECT_PATH,
  PEER,
  PROPERTIES,
  SERVICE,
} from './contract.ts';
import { introspectBundle, introspectManager, introspectParent } from './introspection.ts';
import { ChangeAnnouncer, objectsOf } from './properties/objects.ts';
import {
  bundleTable,
  encodeManagedObjects,
  encodeProperties,
  managerTable,
  type PropertyTable,
} from './properties/properties.ts';
import { fieldsOf } from './wire-types.ts';

/** What a method works with. */
interface Serving {
  readonly bus: ApiBus;
  readonly authority: Authority;
  readonly backend: ApiBackend;
  /** Aborts when the service stops. */
  readonly signal: AbortSignal;
}

/** A flag of `RequestName`: fail instead of waiting for the name. */
const DO_NOT_QUEUE = 4;
/** The answer of `RequestName` when another process has the name. */
const EXISTS = 3;
/** Clients request about this many in a row. */
const KEPT_REPLIES = 32;
/** The cost of a call that polkit has to allow. */
const ACTION_MS = 5;

type Method = (call: IncomingCall, serving: Serving) => Promise<BusReply> | BusReply;

const nothing: BusReply = { signature: '', body: [] };
const BUNDLE_PATH = new RegExp(`^${BUNDLES_PATH}/[0-9A-Za-z_]+$`);

/** The methods of every object, by interface, name and signature. */
const ofAnyObject = [
  [`${PROPERTIES}.Get(ss)`, getProperty],
  [`${PROPERTIES}.GetAll(s)`, getAllProperties],
  [`${PEER}.Ping()`, () => nothing],
] as const;

const ofManager: ReadonlyMap<string, Method> = new Map<string, Method>([
  ...(Object.keys(METHODS) as MethodName[]).map(contractMethod),
  ...ofAnyObject,
  [`${OBJECT_MANAGER}.GetManagedObjects()`, getManagedObjects],
  [`${INTROSPECTABLE}.Introspect()`, () => xml(introspectManager())],
]);

const ofBundle: ReadonlyMap<string, Method> = new Map<string, Method>([
  ...ofAnyObject,
  [`${INTROSPECTABLE}.Introspect()`, introspectOneBundle],
]);

const READS: ReadonlySet<string> = new Set(
  Object.entries<MethodContract>(METHODS).flatMap(([key, { access }]) =>
    access === 'anybody' ? [busNameOf(key)] : [],
  ),
);

/**
 * Serves `io.stickpin1` and keeps serving it across reconnections. Root may call everything, others
 * what the contract and polkit allow.
 */
export class ApiService {
  private readonly serving: Serving;
  private readonly budget: CallerBudget;
  private readonly log: Log;
  private readonly stop = new AbortController();
  private readonly announcer: ChangeAnnouncer;
  private readonly unsubscribe: Unsubscribe;
  /** Answers that were made of one report, as bytes, by path, method and arguments. */
  private readonly replies = new Map<string, BusReply>();
  private repliesOf: StatusReport | undefined;

  /** `lookups`: another connection, on which no calls of others stand before answers of the bus. */
  constructor(bus: ApiBus, lookups: Pick<ApiBus, 'call'>, backend: ApiBackend, clock: Clock, log: Log) {
    const authority = { bus: lookups, ownUid: process.getuid?.() ?? 0 };
    this.serving = { bus, authority, backend, signal: this.stop.signal };
    this.budget = new CallerBudget(authority, clock);
    this.log = log;
    bus.serve((call) => this.answer(call), refusalOf);
    this.unsubscribe = bus.onConnected(() => this.ownName());
    this.announcer = new ChangeAnnouncer(bus, backend, clock, log);
    this.ownName();
  }

  /** Ends running calls and releases the name. */
  async dispose(): Promise<void> {
    this.unsubscribe();
    this.announcer.stop();
    this.stop.abort(new AppError({ code: 'api/stopping', message: 'The daemon is stopping', disposition: 'retry' }));
    const release = busCall('ReleaseName', 's', [SERVICE]);
    await this.serving.bus.call(release, AbortSignal.timeout(1_000)).catch(() => undefined);
  }

  /** Requests our name and logs a failure. After a reconnection it is requested again. */
  private ownName(): void {
    const { bus, signal } = this.serving;
    bus.call(busCall('RequestName', 'su', [SERVICE, DO_NOT_QUEUE]), signal).then(
      ([result]) => {
        // Two daemons would conflict on media, pins and the port.
        if (result === EXISTS) {
          this.log.error({ name: SERVICE }, `The D-Bus name ${SERVICE} is taken: another stickpin is running`);
        }
      },
      (err: unknown) => {
        if (signal.aborted || (err instanceof AppError && err.code === 'platform/bus-unreachable')) return;
        this.log.error({ err }, `The D-Bus name ${SERVICE} could not be taken`);
      },
    );
  }

  /** @throws BusErrorReply */
  private async answer(call: IncomingCall): Promise<BusReply> {
    const method = methodOf(call);
    if (method === undefined) throw refusalOf(call);
    const { signal } = this.serving;
    try {
      if (isRead(call)) return await this.budget.run(call.sender, () => this.readReply(call, method), signal);
      await this.budget.run(call.sender, async () => undefined, signal, ACTION_MS);
      return await method(call, this.serving);
    } catch (error) {
      if (error instanceof BusErrorReply) throw error;
      throw new BusErrorReply(errorNameOf(error instanceof AppError ? error.code : ''), oneLine(reasonOf(error)));
    }
  }

  /** The bytes of a reply, which are the same for all callers until the report changes. */
  private async readReply(call: IncomingCall, method: Method): Promise<BusReply> {
    const key = JSON.stringify([call.path, keyOf(call), call.body]);
    const report = call.interface === MANAGER ? undefined : this.serving.backend.report();
    const isOld = report === undefined || report !== this.repliesOf;
    if (isOld || this.replies.size >= KEPT_REPLIES) this.replies.clear();
    this.repliesOf = report;
    const known = this.replies.get(key);
    if (known !== undefined) return known;
    const { signature, body } = await method(call, this.serving);
    const reply = { signature, body: Buffer.isBuffer(body) ? body : writeBody(signature, body) };
    if (report !== undefined) this.replies.set(key, reply);
    return reply;
  }
}

/**
 * The error for a call of a method that does not exist, or of one that reads for nobody. Returns
 * undefined for any other.
 */
function refusalOf(call: CallHeader): BusErrorReply | undefined {
  if (methodOf(call) !== undefined) {
    const isForNobody = (call.flags & NO_REPLY_EXPECTED) !== 0 && isRead(call);
    return isForNobody ? new BusErrorReply('org.freedesktop.DBus.Error.NoReply', 'No answer was wanted') : undefined;
  }
  if (methodsAt(call.path) !== undefined && keyOf(call) === `${PROPERTIES}.Set(ssv)`) {
    return new BusErrorReply('org.freedesktop.DBus.Error.PropertyReadOnly', 'No property here can be set');
  }
  return new BusErrorReply(
    'org.freedesktop.DBus.Error.UnknownMethod',
    `There is no method ${call.member}(${call.signature}) at ${call.path}`,
  );
}

function isRead(call: CallHeader): boolean {
  return call.interface !== MANAGER || READS.has(call.member);
}

function keyOf({ interface: iface, member, signature }: CallHeader): string {
  return `${iface}.${member}(${signature})`;
}

function methodsAt(path: string): ReadonlyMap<string, Method> | undefined {
  if (path === OBJECT_PATH) return ofManager;
  return BUNDLE_PATH.test(path) ? ofBundle : undefined;
}

/** Calls of other methods are refused before their arguments are read. */
function methodOf(call: CallHeader): Method | undefined {
  const methods = methodsAt(call.path);
  if (methods !== undefined) return methods.get(keyOf(call));
  return keyOf(call) === `${INTROSPECTABLE}.Introspect()` ? introspectionOfParent(call.path) : undefined;
}

function contractMethod(key: MethodName): [string, Method] {
  const { args, result, access }: MethodContract = METHODS[key];
  const parameters = fieldsOf(args);
  const [returned] = Object.values(result);
  const signature = parameters.map(([, type]) => type.signature).join('');
  const method: Method = async (call, { backend, authority, signal }) => {
    const values = parameters.map(([name, type], at) => [name, type.decode(call.body[at])] as const);
    const uid = access === 'anybody' ? undefined : await authorize(access, call, authority, signal);
    // Each value has the type that the contract names.
    const answered: unknown = await backend.methods[key](Object.fromEntries(values) as never, { signal, uid });
    return returned === undefined ? nothing : { signature: returned.signature, body: [returned.encode(answered)] };
  };
  return [`${MANAGER}.${busNameOf(key)}(${signature})`, method];
}

/**
 * The properties of the object at a path. @throws BusErrorReply `UnknownObject` for a bundle that
 * is not there
 */
function propertiesAt(path: string, { backend }: Serving): { table: PropertyTable; values: Record<string, unknown> } {
  const { manager, bundles } = objectsOf(backend.report());
  if (path === OBJECT_PATH) return { table: managerTable, values: encodeProperties(managerTable, manager) };
  const bundle = bundles.get(path);
  if (bundle !== undefined) return { table: bundleTable, values: encodeProperties(bundleTable, bundle) };
  throw new BusErrorReply('org.freedesktop.DBus.Error.UnknownObject', `There is no object ${path}`);
}

function getProperty({ path, body: [iface, name] }: IncomingCall, serving: Serving): BusReply {
  const { table, values } = propertiesAt(path, serving);
  const property = String(name);
  if (iface === table.interface && Object.hasOwn(values, property)) return { signature: 'v', body: [values[property]] };
  const isKnown = iface === table.interface && table.fields.some(([key]) => busNameOf(key) === property);
  throw new BusErrorReply(
    'org.freedesktop.DBus.Error.UnknownProperty',
    isKnown ? `${property} has no value now` : `There is no property ${iface}.${property}`,
  );
}

function getAllProperties({ path, body: [iface] }: IncomingCall, serving: Serving): BusReply {
  const { table, values } = propertiesAt(path, serving);
  return { signature: 'a{sv}', body: [iface === table.interface || iface === '' ? values : {}] };
}

function getManagedObjects(_call: IncomingCall, { backend }: Serving): BusReply {
  return { signature: 'a{oa{sa{sv}}}', body: [encodeManagedObjects(objectsOf(backend.report()))] };
}

function introspectOneBundle({ path }: IncomingCall, serving: Serving): BusReply {
  propertiesAt(path, serving);
  return xml(introspectBundle());
}

/** Tools walk the tree from `/`. Returns undefined for other paths. */
function introspectionOfParent(path: string): Method | undefined {
  if (path === BUNDLES_PATH) {
    return (_call, { backend }) => {
      const paths = [...objectsOf(backend.report()).bundles.keys()];
      return xml(introspectParent(paths.map((each) => each.slice(BUNDLES_PATH.length + 1))));
    };
  }
  const prefix = path === '/' ? '/' : `${path}/`;
  if (!OBJECT_PATH.startsWith(prefix)) return undefined;
  const [child = ''] = OBJECT_PATH.slice(prefix.length).split('/');
  return () => xml(introspectParent([child]));
}

function xml(document: string): BusReply {
  return { signature: 's', body: [document] };
}

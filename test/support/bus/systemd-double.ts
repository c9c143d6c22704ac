import {
  BusErrorReply,
  type BusReply,
  busCall,
  connectMessageBus,
  type IncomingCall,
  type MessageBus,
  unwrapVariant,
  variant,
} from '../../../src/host/bus/message-bus.ts';
import { unitObjectPath, unitOfObjectPath } from '../../../src/host/units.ts';

const SYSTEMD = 'org.freedesktop.systemd1';
const MANAGER = `${SYSTEMD}.Manager`;
const MANAGER_PATH = '/org/freedesktop/systemd1';

/** Properties of a transient unit as they were asked for, variants unwrapped. */
type TransientProperties = Readonly<Record<string, unknown>>;

/** What happens when a job runs: the `result` of JobRemoved, as `done` or `failed`. */
interface SystemdHooks {
  mount?(unit: string, properties: TransientProperties): Promise<string>;
  stop?(unit: string): Promise<string>;
  reload?(unit: string, mode: string): Promise<string>;
  start?(unit: string): Promise<string>;
  restart?(unit: string, mode: string): Promise<string>;
  /** The unit of a process. Default: systemd knows none. */
  unitOf?(pid: number): string | undefined;
}

/**
 * Enough of systemd's manager on a bus to plug devices in and out and to run mount, start, stop,
 * restart and reload jobs.
 */
export interface SystemdDouble {
  /** The calls that came in, as `StartTransientUnit`. */
  readonly calls: readonly string[];
  /** The unique names of those who called. */
  readonly senders: ReadonlySet<string>;
  /** Puts a unit with these properties into memory and announces it with UnitNew. */
  addUnit(unit: string, properties: Readonly<Record<string, Readonly<Record<string, unknown>>>>): void;
  /** Takes a unit out of memory and announces it with UnitRemoved. */
  removeUnit(unit: string): void;
  /** `systemctl daemon-reload`: all units are forgotten and read again. */
  reload(): void;
  /** A device unit in state `active`, as a plugged-in device has it. */
  plug(unit: string, sysfsPath: string): void;
  /** Sends PropertiesChanged of a unit's interface (`Unit`, `Device`, `Service`). */
  changeProperties(unit: string, iface: string, properties: Readonly<Record<string, unknown>>): void;
  hooks: SystemdHooks;
  /** `SystemState` of the manager, at first `running`. */
  state: string;
  stop(): void;
}

const never = new AbortController().signal;

/**
 * Connects to the bus at `address` and owns systemd's name there. As the real one it sends signals
 * only after `Subscribe`.
 */
export async function startSystemdDouble(address: string): Promise<SystemdDouble> {
  const bus = await connectMessageBus(address, never);
  const units = new Map<string, Record<string, Record<string, unknown>>>();
  const subscribers = new Set<string>();
  const calls: string[] = [];
  const senders = new Set<string>();
  const emit = (path: string, iface: string, member: string, signature: string, body: readonly unknown[]): void => {
    if (subscribers.size > 0) bus.emit({ path, interface: iface, member, signature, body });
  };
  const double: SystemdDouble = {
    calls,
    senders,
    hooks: {},
    state: 'running',
    addUnit: (unit, properties) => {
      units.set(unit, structuredClone(properties) as Record<string, Record<string, unknown>>);
      emit(MANAGER_PATH, MANAGER, 'UnitNew', 'so', [unit, unitObjectPath(unit)]);
    },
    removeUnit: (unit) => {
      units.delete(unit);
      emit(MANAGER_PATH, MANAGER, 'UnitRemoved', 'so', [unit, unitObjectPath(unit)]);
    },
    reload: () => {
      emit(MANAGER_PATH, MANAGER, 'Reloading', 'b', [true]);
      for (const member of ['UnitRemoved', 'UnitNew']) {
        for (const unit of units.keys()) emit(MANAGER_PATH, MANAGER, member, 'so', [unit, unitObjectPath(unit)]);
      }
      emit(MANAGER_PATH, MANAGER, 'Reloading', 'b', [false]);
    },
    plug: (unit, sysfsPath) =>
      double.addUnit(unit, { Unit: { ActiveState: 'active' }, Device: { SysFSPath: sysfsPath } }),
    changeProperties: (unit, iface, properties) => {
      const known = units.get(unit);
      if (known !== undefined) known[iface] = { ...known[iface], ...properties };
      emit(unitObjectPath(unit), 'org.freedesktop.DBus.Properties', 'PropertiesChanged', 'sa{sv}as', [
        `${SYSTEMD}.${iface}`,
        Object.fromEntries(Object.entries(properties).map(([name, value]) => [name, asVariant(value)])),
        [],
      ]);
    },
    stop: () => bus.close(),
  };
  let nextJob = 1;
  const starting = new Map<string, BusReply>();
  const job = (unit: string, run: () => Promise<string>): BusReply => {
    const id = nextJob++;
    const path = `${MANAGER_PATH}/job/${id}`;
    const removed = (result: string): void =>
      emit(MANAGER_PATH, MANAGER, 'JobRemoved', 'uoss', [id, path, unit, result]);
    run().then(removed, () => removed('failed'));
    return { signature: 'o', body: [path] };
  };
  const methods: Readonly<Record<string, (call: IncomingCall) => BusReply>> = {
    Subscribe: ({ sender }) => {
      if (subscribers.has(sender))
        throw new BusErrorReply(`${SYSTEMD}.AlreadySubscribed`, 'Client is already subscribed.');
      subscribers.add(sender);
      return { signature: '', body: [] };
    },
    ListUnitsByPatterns: ({ body }) => {
      const prefixes = (body[1] as string[]).map((pattern) => pattern.split('*')[0] ?? '');
      const names = [...units.keys()].filter((name) => prefixes.some((prefix) => name.startsWith(prefix)));
      const row = (name: string) => [name, '', 'loaded', 'active', 'plugged', '', unitObjectPath(name), 0, '', '/'];
      return { signature: 'a(ssssssouso)', body: [names.map(row)] };
    },
    GetUnit: ({ body }) => {
      const unit = String(body[0]);
      if (!units.has(unit)) throw new BusErrorReply(`${SYSTEMD}.NoSuchUnit`, `Unit ${unit} not loaded.`);
      return { signature: 'o', body: [unitObjectPath(unit)] };
    },
    Get: ({ path, body }) => {
      const [iface, name] = body.map(String);
      if (path === MANAGER_PATH && name === 'SystemState') return { signature: 'v', body: [asVariant(double.state)] };
      const value = units.get(unitOfObjectPath(path))?.[String(iface).slice(SYSTEMD.length + 1)]?.[String(name)];
      if (value === undefined) throw new BusErrorReply('org.freedesktop.DBus.Error.UnknownProperty', String(name));
      return { signature: 'v', body: [asVariant(value)] };
    },
    StartTransientUnit: ({ body }) => {
      const unit = String(body[0]);
      if (units.has(unit)) throw new BusErrorReply(`${SYSTEMD}.UnitExists`, `Unit ${unit} was already loaded.`);
      const pairs = (body[2] as [string, unknown][]).map(([name, value]) => [name, unwrapVariant(value)] as const);
      return job(unit, async () => (await double.hooks.mount?.(unit, Object.fromEntries(pairs))) ?? 'done');
    },
    StopUnit: ({ body }) => {
      const unit = String(body[0]);
      if (!units.has(unit)) throw new BusErrorReply(`${SYSTEMD}.NoSuchUnit`, `Unit ${unit} not loaded.`);
      return job(unit, async () => (await double.hooks.stop?.(unit)) ?? 'done');
    },
    StartUnit: ({ body }) => {
      const unit = String(body[0]);
      if (!units.has(unit)) throw new BusErrorReply(`${SYSTEMD}.NoSuchUnit`, `Unit ${unit} not found.`);
      // A second job of the same type is merged into the one that runs (systemd, job_install()).
      const running = starting.get(unit);
      if (running !== undefined) return running;
      const started = job(unit, async () => {
        const result = (await double.hooks.start?.(unit)) ?? 'done';
        starting.delete(unit);
        return result;
      });
      starting.set(unit, started);
      return started;
    },
    GetUnitByPID: ({ body }) => {
      const unit = double.hooks.unitOf?.(Number(body[0]));
      if (unit === undefined) {
        throw new BusErrorReply(`${SYSTEMD}.NoUnitForPID`, `PID ${body[0]} does not belong to any loaded unit.`);
      }
      return { signature: 'o', body: [unitObjectPath(unit)] };
    },
    RestartUnit: ({ body }) => {
      const unit = String(body[0]);
      if (!units.has(unit)) throw new BusErrorReply(`${SYSTEMD}.NoSuchUnit`, `Unit ${unit} not found.`);
      return job(unit, async () => (await double.hooks.restart?.(unit, String(body[1]))) ?? 'done');
    },
    ReloadUnit: ({ body }) => {
      const unit = String(body[0]);
      if (!units.has(unit)) throw new BusErrorReply(`${SYSTEMD}.NoSuchUnit`, `Unit ${unit} not found.`);
      return job(unit, async () => (await double.hooks.reload?.(unit, String(body[1]))) ?? 'done');
    },
  };
  bus.serve(async (call) => {
    calls.push(call.member);
    senders.add(call.sender);
    const method = methods[call.member];
    if (method === undefined) throw new BusErrorReply('org.freedesktop.DBus.Error.UnknownMethod', call.member);
    return method(call);
  });
  await ownName(bus);
  return double;
}

async function ownName(bus: MessageBus): Promise<void> {
  await bus.call(busCall('RequestName', 'su', [SYSTEMD, 4]), never);
}

function asVariant(value: unknown): unknown {
  if (typeof value === 'boolean') return variant('b', value);
  return typeof value === 'number' ? variant('u', value) : variant('s', value);
}

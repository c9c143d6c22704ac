import * as v from 'valibot';
import { historyEvent, type StatusReport } from '../../src/domain/report/status-schema.ts';
import { BUNDLE, type BusValues, MANAGER, MANAGER_PATH, parseReport, plain, reportOf, SERVICE } from './decode.ts';

const PROPERTIES = 'org.freedesktop.DBus.Properties';
const OBJECT_MANAGER = 'org.freedesktop.DBus.ObjectManager';
/** Where the daemon writes its report (`paths.run_dir`). */
const STATUS_FILE = '/run/stickpin/status.json';
const MAX_FILE_BYTES = 16 * 1024 * 1024;
/** Pause before another connection, in milliseconds. */
const AGAIN_MS = 5_000;

/** What the page knows of the daemon. */
export type Known =
  | { readonly kind: 'connecting' }
  | { readonly kind: 'starting' }
  | { readonly kind: 'live'; readonly report: StatusReport }
  /** The daemon does not answer. */
  | { readonly kind: 'stored'; readonly report: StatusReport; readonly writtenAt: string }
  | { readonly kind: 'absent' }
  /** The report does not fit this page. */
  | { readonly kind: 'unreadable'; readonly version: string };

export type HistoryEvent = v.InferOutput<typeof historyEvent>;

/** An error of the daemon, of D-Bus or of Cockpit. `code`: `io.stickpin1.Error.Engine.NoBundle`. */
export interface CallError {
  readonly code: string;
  readonly message: string;
}

/** As cockpit.js takes `a{sv}`: signature and value of each. */
type Options = Readonly<Record<string, { readonly t: string; readonly v: unknown }>>;

/** The daemon over `io.stickpin1`; while it does not answer, its file `status.json`. */
export class Daemon {
  known: Known = { kind: 'connecting' };
  private client: CockpitDbus | undefined;
  private manager: BusValues = {};
  private bundles = new Map<string, BusValues>();
  private isReading = false;
  private isStale = false;
  private isOwned = false;
  private watch: { remove(): void } | undefined;

  constructor(private readonly onChange: () => void) {}

  connect(): void {
    // With administrative access calls come from root. Otherwise polkit decides.
    const client = cockpit.dbus(SERVICE, { bus: 'system', superuser: 'try', track: true });
    this.client = client;
    client.subscribe({ path_namespace: MANAGER_PATH }, (path, iface, signal, args) => {
      if (this.client === client) this.apply(path, `${iface}.${signal}`, args);
    });
    client.addEventListener('owner', (_event, owner) => {
      if (this.client !== client) return;
      this.isOwned = owner !== null && owner !== '';
      if (this.isOwned) void this.read();
      else this.showFile();
    });
    client.addEventListener('close', () => {
      if (this.client !== client) return;
      this.isOwned = false;
      this.showFile();
      setTimeout(() => this.connect(), AGAIN_MS);
    });
  }

  /** Calls a method of the manager; `options` is its argument `a{sv}`. @throws CallError */
  async call(method: string, texts: readonly string[], options?: Options): Promise<string> {
    if (this.client === undefined || !this.isOwned) throw callError({ message: 'The daemon does not run' });
    try {
      const args = options === undefined ? texts : [...texts, options];
      const type = `${'s'.repeat(texts.length)}${options === undefined ? '' : 'a{sv}'}`;
      const [answer] = await this.client.call(MANAGER_PATH, MANAGER, method, args, { type });
      return typeof answer === 'string' ? answer : '';
    } catch (error) {
      throw callError(error);
    }
  }

  /** The newest events, newest first. @throws CallError */
  async history(): Promise<readonly HistoryEvent[]> {
    if (this.client === undefined || !this.isOwned) throw callError({ message: 'The daemon does not run' });
    try {
      const [events] = await this.client.call(MANAGER_PATH, MANAGER, 'GetHistory', [''], { type: 's' });
      const parsed = v.safeParse(v.array(historyEvent), plain(events));
      if (!parsed.success) throw callError({ message: 'The history is of another version of stickpin' });
      return parsed.output.reverse();
    } catch (error) {
      throw callError(error);
    }
  }

  /** Reads all properties. One read runs at a time. */
  private async read(): Promise<void> {
    const { client } = this;
    if (client === undefined) return;
    this.isStale = true;
    if (this.isReading) return;
    this.isReading = true;
    try {
      while (this.isStale && this.client === client && this.isOwned) {
        this.isStale = false;
        const [manager] = await client.call(MANAGER_PATH, PROPERTIES, 'GetAll', [MANAGER], { type: 's' });
        const [objects] = await client.call(MANAGER_PATH, OBJECT_MANAGER, 'GetManagedObjects', []);
        this.manager = asTable(manager);
        this.bundles = new Map(Object.entries(asTable(objects)).map(([path, ifaces]) => [path, bundleIn(ifaces)]));
        this.show();
      }
    } catch {
      if (!this.isOwned) this.showFile();
      else setTimeout(() => void this.read(), AGAIN_MS);
    } finally {
      this.isReading = false;
    }
  }

  private apply(path: string, signal: string, args: readonly unknown[]): void {
    if (signal === `${PROPERTIES}.PropertiesChanged`) {
      const [iface, changed, invalidated] = args;
      const isLong = Array.isArray(invalidated) && invalidated.length > 0;
      if (iface === MANAGER) this.manager = { ...this.manager, ...asTable(changed) };
      else this.bundles.set(path, { ...this.bundles.get(path), ...asTable(changed) });
      if (isLong) void this.read();
      else this.show();
    } else if (signal === `${OBJECT_MANAGER}.InterfacesAdded`) {
      this.bundles.set(String(args[0]), bundleIn(args[1]));
      this.show();
    } else if (signal === `${OBJECT_MANAGER}.InterfacesRemoved`) {
      this.bundles.delete(String(args[0]));
      this.show();
    }
  }

  private show(): void {
    if (!this.isOwned || this.manager.Status === undefined) return;
    if (plain(this.manager.Started) !== true) {
      this.become({ kind: 'starting' });
      return;
    }
    const report = reportOf(this.manager, this.bundles);
    const version = String(plain(this.manager.Version));
    this.become(report === undefined ? { kind: 'unreadable', version } : { kind: 'live', report });
  }

  private showFile(): void {
    this.manager = {};
    this.bundles = new Map();
    if (this.watch !== undefined) return;
    const file = cockpit.file(STATUS_FILE, { max_read_size: MAX_FILE_BYTES, superuser: 'try' });
    const watch = file.watch((content) => {
      if (this.watch !== undefined) this.become(content === null ? { kind: 'absent' } : storedIn(content));
    });
    this.watch = {
      remove: () => {
        watch.remove();
        file.close();
      },
    };
  }

  private become(known: Known): void {
    if (this.isOwned) {
      this.watch?.remove();
      this.watch = undefined;
    }
    this.known = known;
    this.onChange();
  }
}

function storedIn(content: string): Known {
  try {
    const document = JSON.parse(content);
    const report = parseReport(document);
    const { writtenAt } = document;
    if (report !== undefined && typeof writtenAt === 'string') return { kind: 'stored', report, writtenAt };
  } catch {
    // A text that is no JSON says as little as no file.
  }
  return { kind: 'absent' };
}

function bundleIn(interfaces: unknown): BusValues {
  return asTable(asTable(interfaces)[BUNDLE]);
}

function asTable(value: unknown): BusValues {
  const inner = typeof value === 'object' && value !== null && 't' in value && 'v' in value ? value.v : value;
  return typeof inner === 'object' && inner !== null ? (inner as BusValues) : {};
}

/** Errors of D-Bus have a name, those of Cockpit a problem. */
export function callError(error: unknown): CallError {
  const { name, problem, message, code } = error as Partial<Record<string, unknown>>;
  const text = typeof message === 'string' && message !== '' ? message : String(problem ?? error);
  return { code: String(code ?? problem ?? name ?? ''), message: text };
}

import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { bundleIntoCache, criProtoFile } from './bundle.ts';

/** Directories and files of one double. All lie below `base`. */
interface CrioDoubleDirectories {
  readonly base: string;
  /** `/etc/crio`. */
  readonly crioConfig: string;
  /** `/etc/crio/crio.conf.d`. */
  readonly crioDropIns: string;
  /** `/etc/containers/registries.conf` and its drop-in directory. */
  readonly registriesFile: string;
  readonly registriesDropIns: string;
  /** `/etc/containers/registries.d` (sigstore and look-aside configuration). */
  readonly registriesD: string;
  readonly policyFile: string;
  /** `/run/crio`: socket and version file. */
  readonly run: string;
  readonly graphRoot: string;
  /** Where layers are staged (docs/runtime-facts.md, fact 18), in place of `/var/tmp`. */
  readonly staging: string;
  /** The fixture of containers, see `FixtureContainer`. It need not be there. */
  readonly containersFile: string;
}

/** A double that runs. */
export interface CrioDouble {
  readonly socketPath: string;
  readonly dirs: CrioDoubleDirectories;
  readonly process: ChildProcess;
  /** Sends SIGHUP and returns, as `systemctl reload crio` does (docs/runtime-facts.md, fact 5). */
  reload(): void;
  /**
   * Reloads and waits until the double says how it went: undefined when it worked, else its
   * message.
   */
  reloadAndWait(): Promise<string | undefined>;
  /** All that it has logged so far. */
  log(): string;
  /** Resolves with the log once it matches. Rejects after `timeoutMs`, default 60 s. */
  waitForLog(pattern: RegExp, timeoutMs?: number): Promise<string>;
  /**
   * Ends it in order (SIGTERM) and waits. It waits for running pulls as CRI-O does; after 10 s it
   * is killed, as systemd kills after `TimeoutStopSec`. Removes the directories if this harness
   * made them.
   */
  stop(): Promise<void>;
  /** Ends it without warning (SIGKILL), its skopeo processes too. Keeps the directories. */
  kill(): Promise<void>;
}

/** How a double is started. */
export interface StartOptions {
  /**
   * An existing or new directory to use, as for a restart; without it a temporary one, which
   * `stop()` removes.
   */
  readonly base?: string;
  /** The command line of skopeo, default `['skopeo']`. Facts of newer versions need trixie's. */
  readonly skopeo?: readonly string[];
  /** Default `vfs`, which works on any file system. */
  readonly storageDriver?: 'overlay' | 'vfs';
  /** Default 150. */
  readonly reloadDelayMs?: number;
  /** Files to write before the start, by path below `base`, as `etc/crio/crio.conf.d/10-a.conf`. */
  readonly files?: Readonly<Record<string, string>>;
  /** More words for the command line. */
  readonly flags?: readonly string[];
  /** The words before its command line, as those that enter a network namespace. Default none. */
  readonly enter?: readonly string[];
}

const stopTimeoutMs = 10_000;
const acceptAnything = JSON.stringify({ default: [{ type: 'insecureAcceptAnything' }] });

/**
 * Starts a double and waits until it listens. Needs root, since the storage keeps files of other
 * owners.
 *
 * @throws Error with the log when it ends instead.
 */
export async function startCrioDouble(options: StartOptions = {}): Promise<CrioDouble> {
  const base = options.base ?? mkdtempSync(join(tmpdir(), 'crio-double-'));
  const dirs = layOut(base);
  for (const [path, text] of Object.entries(options.files ?? {})) {
    mkdirSync(dirname(join(base, path)), { recursive: true });
    writeFileSync(join(base, path), text);
  }
  const double = spawnDouble(await bundleOnce(), dirs, options);
  try {
    await double.waitForLog(/msg="Listening on/);
  } catch (error) {
    await double.stop();
    throw error;
  }
  return double;
}

/**
 * Runs the double's `wipe` command on the directories of a stopped one, as `crio-wipe.service` does
 * at boot.
 */
export async function wipeCrioDouble(base: string, options: StartOptions = {}): Promise<string> {
  const double = spawnDouble(await bundleOnce(), layOut(base), { ...options, base }, ['wipe']);
  await new Promise((resolve) => double.process.once('close', resolve));
  return double.log();
}

let bundled: Promise<string> | undefined;

/** Once a process: the sources don't change under a test run. */
function bundleOnce(): Promise<string> {
  bundled ??= bundleIntoCache();
  return bundled;
}

function layOut(base: string): CrioDoubleDirectories {
  const dirs = {
    base,
    crioConfig: join(base, 'etc/crio'),
    crioDropIns: join(base, 'etc/crio/crio.conf.d'),
    registriesFile: join(base, 'etc/containers/registries.conf'),
    registriesDropIns: join(base, 'etc/containers/registries.conf.d'),
    registriesD: join(base, 'etc/containers/registries.d'),
    policyFile: join(base, 'etc/containers/policy.json'),
    run: join(base, 'run/crio'),
    graphRoot: join(base, 'storage'),
    staging: join(base, 'staging'),
    containersFile: join(base, 'containers.json'),
  };
  const { crioDropIns, registriesDropIns, registriesD, run, staging } = dirs;
  for (const path of [crioDropIns, registriesDropIns, registriesD, run, staging]) mkdirSync(path, { recursive: true });
  chmodSync(base, 0o755);
  writeFileSync(dirs.policyFile, acceptAnything);
  return dirs;
}

function commandLine(dirs: CrioDoubleDirectories, options: StartOptions): string[] {
  const flags = {
    config: join(dirs.crioConfig, 'crio.conf'),
    'config-dir': dirs.crioDropIns,
    listen: join(dirs.run, 'crio.sock'),
    root: dirs.graphRoot,
    runroot: join(dirs.base, 'run/storage'),
    'storage-driver': options.storageDriver ?? 'vfs',
    'registries-conf': dirs.registriesFile,
    'registries-conf-dir': dirs.registriesDropIns,
    'registries-d': dirs.registriesD,
    'signature-policy': dirs.policyFile,
    'big-files-temporary-dir': dirs.staging,
    'state-dir': join(dirs.base, 'run/crio-double'),
    'version-file': join(dirs.run, 'version'),
    containers: dirs.containersFile,
    proto: criProtoFile,
    'reload-delay-ms': String(options.reloadDelayMs ?? 150),
  };
  const words = Object.entries(flags).map(([flag, value]) => `--${flag}=${value}`);
  const skopeo = (options.skopeo ?? ['skopeo']).map((word) => `--skopeo=${word}`);
  return [...words, ...skopeo, ...(options.flags ?? [])];
}

function spawnDouble(
  bundle: string,
  dirs: CrioDoubleDirectories,
  options: StartOptions,
  command: readonly string[] = [],
): CrioDouble {
  const words = [...(options.enter ?? []), process.execPath, bundle, ...command, ...commandLine(dirs, options)];
  const [program = '', ...args] = words;
  const child = spawn(program, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    // A process group of its own, so that its skopeo processes can be ended with it.
    detached: true,
  });
  let text = '';
  const listeners = new Set<() => void>();
  const take = (chunk: Buffer) => {
    text += chunk.toString();
    for (const listener of listeners) listener();
  };
  child.stdout.on('data', take);
  child.stderr.on('data', take);
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const waitForLog = (pattern: RegExp, timeoutMs = 60_000) => waitFor(() => text, pattern, listeners, ended, timeoutMs);
  const end = async (signal: NodeJS.Signals) => {
    if (child.exitCode === null && child.signalCode === null && child.pid !== undefined) {
      process.kill(signal === 'SIGKILL' ? -child.pid : child.pid, signal);
    }
    await ended;
  };
  return {
    socketPath: join(dirs.run, 'crio.sock'),
    dirs,
    process: child,
    reload: () => void child.kill('SIGHUP'),
    reloadAndWait: async () => {
      const outcome = /msg="(Configuration reload completed|Unable to reload configuration: .*)"\n/g;
      const before = [...text.matchAll(outcome)].length;
      child.kill('SIGHUP');
      const log = await waitForLog(new RegExp(`(?:[\\s\\S]*?${outcome.source}){${before + 1}}`));
      const [, message = ''] = [...log.matchAll(outcome)][before] ?? [];
      return message.startsWith('Unable') ? JSON.parse(`"${message}"`) : undefined;
    },
    log: () => text,
    waitForLog,
    stop: async () => {
      const timer = setTimeout(() => void end('SIGKILL'), stopTimeoutMs);
      await end('SIGTERM');
      clearTimeout(timer);
      if (options.base === undefined) rmSync(dirs.base, { recursive: true, force: true });
    },
    kill: () => end('SIGKILL'),
  };
}

function waitFor(
  text: () => string,
  pattern: RegExp,
  listeners: Set<() => void>,
  ended: Promise<void>,
  timeoutMs: number,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const finish = (settle: () => void) => {
      clearTimeout(timer);
      listeners.delete(check);
      settle();
    };
    const check = () => {
      if (pattern.test(text())) finish(() => resolve(text()));
    };
    const fail = (why: string) => finish(() => reject(new Error(`CRI-O double: ${why} ${pattern}:\n${text()}`)));
    const timer = setTimeout(() => fail(`no log line within ${timeoutMs} ms like`), timeoutMs);
    listeners.add(check);
    ended.then(() => fail('ended without a log line like'), reject);
    check();
  });
}

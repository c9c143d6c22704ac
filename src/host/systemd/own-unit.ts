import type { SystemBus } from '../../dbus/system-bus.ts';
import { asUnitError, MANAGER, noService, unitOfObjectPath } from './unit-object.ts';

/**
 * Restarts the own service without a wait: the restart begins with a SIGTERM to this process.
 * systemd then sets its count of automatic restarts, and with it the pause of `RestartSteps=`, to
 * zero (systemd.service(5)). A stop in the queue wins (mode `fail`).
 *
 * @param pid default: of this process
 * @throws AppError `host/unit` (`retry`) when systemd refuses, or the process belongs to no
 *   service; `platform/bus-unreachable` (`retry`)
 */
export async function restartOwnUnit(bus: SystemBus, signal: AbortSignal, pid: number = process.pid): Promise<void> {
  const unit = await ownUnit(bus, pid, signal);
  if (!unit.endsWith('.service')) throw noService(unit);
  try {
    await bus.call({ ...MANAGER, member: 'RestartUnit', signature: 'ss', body: [unit, 'fail'] }, signal);
  } catch (error) {
    throw asUnitError('Restarting', unit, error);
  }
}

async function ownUnit(bus: SystemBus, pid: number, signal: AbortSignal): Promise<string> {
  try {
    const [path] = await bus.call({ ...MANAGER, member: 'GetUnitByPID', signature: 'u', body: [pid] }, signal);
    return unitOfObjectPath(String(path));
  } catch (error) {
    throw asUnitError('Finding', `the unit of process ${pid}`, error);
  }
}

/** sd_listen_fds(3). `name` is `FileDescriptorName=`, by default the socket unit's name. */
interface ActivatedSocket {
  readonly fd: number;
  readonly name: string;
}

const FIRST_FD = 3;

/**
 * None without socket activation. `LISTEN_PID`, `LISTEN_FDS` and `LISTEN_FDNAMES` are removed from
 * `env`, so that no child process uses them. A Node server listens with `server.listen({ fd })`.
 */
export function takeActivatedSockets(env: NodeJS.ProcessEnv, pid: number = process.pid): readonly ActivatedSocket[] {
  const { LISTEN_PID: listenPid, LISTEN_FDS: listenFds, LISTEN_FDNAMES: listenNames } = env;
  for (const name of ['LISTEN_PID', 'LISTEN_FDS', 'LISTEN_FDNAMES']) delete env[name];
  const count = Number(listenFds ?? 0);
  if (Number(listenPid) !== pid || !Number.isInteger(count) || count < 1) return [];
  const names = listenNames?.split(':') ?? [];
  return Array.from({ length: count }, (_none, index) => ({ fd: FIRST_FD + index, name: names[index] ?? 'unknown' }));
}

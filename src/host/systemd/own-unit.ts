import type { SystemBus } from '../../dbus/system-bus.ts';
import { MANAGER } from './systemd-names.ts';
import { asUnitError, noService } from './unit-error.ts';
import { unitOfObjectPath } from './unit-object.ts';

/**
 * Asks systemd to restart the service that this process belongs to, and does not wait for it: the
 * restart begins with a SIGTERM to this process. systemd then sets its count of automatic restarts,
 * and with it the pause of `RestartSteps=`, to zero (systemd.service(5)). A stop that is queued
 * already wins (mode `fail`).
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

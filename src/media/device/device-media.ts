import type { MediumId } from '../../domain/model/medium.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { withEither } from '../../platform/async/abort.ts';
import type { Log } from '../../platform/log.ts';
import { messageIds } from '../../platform/message-ids.ts';
import type { Unsubscribe } from '../../platform/subscription.ts';
import type { DeviceUnitEvent, DeviceUnits } from '../../ports/media.ts';
import { isDevicePath, type MediaProvider, type MediaSink, makePrivateFolder, mediaError } from '../media-provider.ts';
import {
  type Device,
  judgeDevice,
  type MachinePaths,
  machinePaths,
  queryUdev,
  type UdevQuery,
  unitNameOfPath,
} from './device.ts';
import { PluggedDevice } from './plugged-device.ts';

export interface DeviceMediaDeps {
  readonly units: DeviceUnits;
  readonly log: Log;
  /** `/run/stickpin/media`. */
  readonly mountDirectory: string;
  /** udev's `ID_FS_TYPE` of filesystems that may be mounted (`media.filesystems`). */
  readonly filesystems: readonly string[];
  readonly query?: UdevQuery;
  readonly paths?: MachinePaths;
  /** Pause when systemd or udev gave no answer, in milliseconds. Default 5 s. */
  readonly retryMs?: number;
}

/** Units of the same device by label, UUID and path all have another dash. */
const KERNEL_NAME = /^dev-[^-]+\.device$/;
/** Our udev rule sets it. It disappears with the medium, even if the unit of the drive stays. */
const ALIAS = /^dev-stickpin-(bare-)?/;
/** Matches a partition and its disk: a stick without a filesystem is known by its disk. */
const PARTITION = /^(dev-(?:sd[a-z]+|mmcblk\d+(?=p)))p?\d+\.device$/;
/** Every machine has dozens of terminals. */
const NEVER_A_DISK = /^dev-(tty|hvc|rfkill|vport|ptmx|zram)/;
const QUESTION_TIMEOUT_MS = 10_000;
/** After this many tries, the first check counts as complete without the unit. */
const TRIES_OF_FIRST_CHECK = 3;

interface Known {
  readonly mediumId: MediumId;
  readonly filesystem: string;
}

/**
 * Sticks, cards and discs that systemd reports (docs/runtime-facts.md, fact 25) and our udev rule
 * marks. An event only names the unit; its state is then read, one unit after another. So the order
 * of events and lost events do not matter.
 */
export class DeviceMedia implements MediaProvider {
  private readonly deps: DeviceMediaDeps & Required<Pick<DeviceMediaDeps, 'query' | 'paths' | 'retryMs'>>;
  private readonly stop = new AbortController();
  private readonly known = new Map<string, Known>();
  /** The values are reasons. */
  private readonly refused = new Map<string, string>();
  private readonly pending = new Set<string>();
  /** The values are the numbers of tries. */
  private readonly unanswered = new Map<string, number>();
  /** A person named them, so they need no mark of our udev rule. */
  private readonly named = new Set<string>();
  private sink: MediaSink | undefined;
  private unsubscribe: Unsubscribe | undefined;
  private working: Promise<void> | undefined;
  private hasListed = false;
  private nextWithoutSeq = 1;

  constructor(deps: DeviceMediaDeps) {
    this.deps = { query: queryUdev, paths: machinePaths, retryMs: 5_000, ...deps };
  }

  isListed(): boolean {
    return this.hasListed && [...this.unanswered.values()].every((tries) => tries >= TRIES_OF_FIRST_CHECK);
  }

  async dispose(): Promise<void> {
    this.unsubscribe?.();
    this.stop.abort();
    await this.working;
  }

  async start(sink: MediaSink): Promise<void> {
    const { mountDirectory, units, log } = this.deps;
    this.sink = sink;
    // An earlier version may have made it accessible to all users.
    await makePrivateFolder(mountDirectory).catch((err: unknown) => {
      log.warn({ err }, `${mountDirectory} can't be made: ${reasonOf(err)}; no medium is mounted without it`);
    });
    this.unsubscribe = units.onDeviceUnit((event) => this.onEvent(event));
  }

  private onEvent(event: DeviceUnitEvent): void {
    if (event.kind === 'resync') {
      this.rescan(this.stop.signal).catch(() => undefined); // the connection is lost again; the next resync follows
      return;
    }
    const unit = event.unit.replace(ALIAS, 'dev-');
    if (!mayBeDisk(unit)) return;
    // Streams end now. The second check undoes a possible adoption by the current one.
    if (event.kind === 'removed') {
      this.named.delete(unit);
      this.forget(unit);
    }
    this.check(unit);
  }

  async rescan(signal: AbortSignal): Promise<void> {
    const found = (await this.deps.units.listUnits(['dev-*.device'], signal)).filter(mayBeDisk);
    for (const unit of new Set([...found, ...this.known.keys()])) this.check(unit);
    await this.working;
    if (this.hasListed) return;
    this.hasListed = true;
    this.sink?.listed?.();
  }

  private check(unit: string): void {
    if (this.stop.signal.aborted) return;
    this.pending.add(unit);
    this.working ??= this.checkPending();
  }

  private async checkPending(): Promise<void> {
    const { pending, unanswered, stop } = this;
    for (const unit of pending) {
      if (stop.signal.aborted) break;
      pending.delete(unit);
      const timeout = AbortSignal.timeout(QUESTION_TIMEOUT_MS);
      try {
        await withEither([stop.signal, timeout], (signal) => this.examine(unit, signal));
        unanswered.delete(unit);
      } catch (error) {
        if (stop.signal.aborted) break;
        const why = timeout.aborted ? `no answer within ${QUESTION_TIMEOUT_MS / 1_000} s` : reasonOf(error);
        this.tryAgainLater(unit, why, error);
      }
    }
    // If this waited for the promise, a unit that is added in between would never be checked.
    this.working = undefined;
  }

  private tryAgainLater(unit: string, why: string, err: unknown): void {
    const { unanswered, deps } = this;
    if (!unanswered.has(unit)) {
      const message = `systemd and udev do not tell what ${unit} is: ${why}. They are asked again until they do`;
      deps.log.warn({ unit, err }, message);
    }
    unanswered.set(unit, (unanswered.get(unit) ?? 0) + 1);
    setTimeout(() => this.check(unit), deps.retryMs).unref();
  }

  private async examine(unit: string, signal: AbortSignal): Promise<void> {
    const { named, deps } = this;
    const sysfsPath = await activeBlockDevice(deps.units, unit, signal);
    if (sysfsPath === undefined) {
      named.delete(unit);
      this.checkDiskOf(unit);
      return this.forget(unit);
    }
    const verdict = await judgeDevice(sysfsPath, deps.query, deps.paths, signal, named.has(unit));
    if (verdict.kind === 'medium') this.adopt(unit, verdict.device);
    else if (verdict.kind === 'refused') this.refuse(unit, verdict.name, verdict.reason);
    else this.forget(unit);
    this.checkDiskOf(unit);
  }

  /** A disk counts as bare only without any filesystem on its partitions. */
  private checkDiskOf(unit: string): void {
    const name = PARTITION.exec(unit)?.[1];
    if (name === undefined) return;
    const disk = `${name}.device`;
    if (this.known.has(disk) || !this.known.has(unit)) this.check(disk);
  }

  /** Reports it unless it was already reported. */
  private adopt(unit: string, device: Device): void {
    const { known, deps } = this;
    const before = known.get(unit);
    const seq = device.diskSeq ?? `u${this.nextWithoutSeq}`;
    const mediumId = `${seq}-${device.name}`;
    const isSame = device.diskSeq === undefined || before?.mediumId === mediumId;
    const filesystem = `${device.filesystem} ${device.filesystemUuid}`;
    if (before !== undefined && isSame && before.filesystem === filesystem) return;
    if (device.diskSeq === undefined) this.nextWithoutSeq += 1;
    this.forget(unit);
    known.set(unit, { mediumId, filesystem });
    this.sink?.arrived(new PluggedDevice(mediumId, device, deps));
  }

  private refuse(unit: string, name: string, reason: string): void {
    const { refused, deps } = this;
    if (refused.get(unit) === reason) return;
    this.forget(unit);
    refused.set(unit, reason);
    deps.log.info({ medium: name, messageId: messageIds.mediumRefused }, `${name} is left alone: ${reason}`);
  }

  private forget(unit: string): void {
    const { known, refused, sink } = this;
    const medium = known.get(unit);
    refused.delete(unit);
    if (medium === undefined) return;
    known.delete(unit);
    sink?.left(medium.mediumId);
  }

  /** {@link MediaProvider.load} for a device. */
  async load(path: string, signal: AbortSignal): Promise<string | undefined> {
    if (!(await isDevicePath(path))) return undefined;
    const { units, query, paths } = this.deps;
    const unit = unitNameOfPath(path, 'device');
    const sysfsPath = await activeBlockDevice(units, unit, signal);
    if (sysfsPath === undefined) {
      const next = "'lsblk' shows those that are there, as /dev/sdb1";
      throw mediaError('media/load', `${path} is not a block device that systemd knows; ${next}`);
    }
    const verdict = await judgeDevice(sysfsPath, query, paths, signal, true);
    if (verdict.kind === 'refused') throw mediaError('media/load', `${path} is left alone: ${verdict.reason}`);
    if (verdict.kind === 'other') {
      throw mediaError('media/load', `${path} has no filesystem; its partition may, see 'lsblk -f'`);
    }
    this.named.add(unit);
    this.refused.delete(unit);
    const before = this.known.get(unit);
    this.adopt(unit, verdict.device);
    // A known medium is mounted again if necessary, and read again.
    if (before !== undefined && this.known.get(unit) === before) this.sink?.changed(before.mediumId);
    return verdict.device.name;
  }
}

function mayBeDisk(unit: string): boolean {
  return KERNEL_NAME.test(unit) && !NEVER_A_DISK.test(unit);
}

async function activeBlockDevice(units: DeviceUnits, unit: string, signal: AbortSignal): Promise<string | undefined> {
  if ((await units.unitProperty(unit, 'Unit', 'ActiveState', signal)) !== 'active') return undefined;
  const sysfsPath = await units.unitProperty(unit, 'Device', 'SysFSPath', signal);
  return typeof sysfsPath === 'string' && sysfsPath.includes('/block/') ? sysfsPath : undefined;
}

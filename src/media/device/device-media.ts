import type { MediumId } from '../../domain/model/medium.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { withEither } from '../../platform/async/abort.ts';
import type { Log } from '../../platform/log.ts';
import { messageIds } from '../../platform/message-ids.ts';
import type { Unsubscribe } from '../../platform/subscription.ts';
import type { DeviceUnitEvent, DeviceUnits } from '../../ports/media.ts';
import { loadError, type MediaProvider, type MediaSink, makePrivateFolder } from '../media-provider.ts';
import {
  type Device,
  judgeDevice,
  type MachinePaths,
  machinePaths,
  queryUdev,
  type UdevQuery,
  unitNameOfPath,
} from './device.ts';
import { createPluggedDevice } from './plugged-device.ts';

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
/** From our udev rule. It disappears with the medium, even if the unit of the drive stays. */
const ALIAS = /^dev-stickpin-(bare-)?/;
/** Of a partition, the name of its disk: a stick without a filesystem is known by its disk. */
const PARTITION = /^(dev-(?:sd[a-z]+|mmcblk\d+(?=p)))p?\d+\.device$/;
/** Every machine has dozens of terminals. */
const NEVER_A_DISK = /^dev-(tty|hvc|rfkill|vport|ptmx|zram)/;
const QUESTION_TIMEOUT_MS = 10_000;
/** Then the first check counts as complete without the unit. */
const TRIES_OF_FIRST_CHECK = 3;

interface Known {
  readonly mediumId: MediumId;
  readonly filesystem: string;
}

interface DeviceWatch {
  readonly deps: DeviceMediaDeps & Required<Pick<DeviceMediaDeps, 'query' | 'paths' | 'retryMs'>>;
  readonly stop: AbortController;
  readonly known: Map<string, Known>;
  /** With the reason. */
  readonly refused: Map<string, string>;
  readonly pending: Set<string>;
  /** With the number of tries. */
  readonly unanswered: Map<string, number>;
  /** By a person, so they need no mark of our udev rule. */
  readonly named: Set<string>;
  sink: MediaSink | undefined;
  unsubscribe: Unsubscribe | undefined;
  working: Promise<void> | undefined;
  hasListed: boolean;
  nextWithoutSeq: number;
}

/**
 * Sticks, cards and discs that systemd reports (docs/runtime-facts.md, fact 25) and our udev rule
 * marks. An event only names the unit; its state is then read, one unit after another. So the order
 * of events and lost events do not matter.
 */
export function createDeviceMedia(deps: DeviceMediaDeps): MediaProvider {
  const { query = queryUdev, paths = machinePaths, retryMs = 5_000 } = deps;
  const watch: DeviceWatch = {
    deps: { ...deps, query, paths, retryMs },
    stop: new AbortController(),
    known: new Map(),
    refused: new Map(),
    pending: new Set(),
    unanswered: new Map(),
    named: new Set(),
    sink: undefined,
    unsubscribe: undefined,
    working: undefined,
    hasListed: false,
    nextWithoutSeq: 1,
  };
  return {
    start: (sink) => startWatch(watch, sink),
    isListed: () => watch.hasListed && [...watch.unanswered.values()].every((tries) => tries >= TRIES_OF_FIRST_CHECK),
    rescan: (signal) => checkAll(watch, signal),
    load: (path, signal) => loadDevice(watch, path, signal),
    dispose: async () => {
      watch.unsubscribe?.();
      watch.stop.abort();
      await watch.working;
    },
  };
}

async function startWatch(watch: DeviceWatch, sink: MediaSink): Promise<void> {
  const { mountDirectory, units, log } = watch.deps;
  watch.sink = sink;
  // An earlier version may have made it accessible to all users.
  await makePrivateFolder(mountDirectory).catch((err: unknown) => {
    log.warn({ err }, `${mountDirectory} can't be made: ${reasonOf(err)}; no medium is mounted without it`);
  });
  watch.unsubscribe = units.onDeviceUnit((event) => onEvent(watch, event));
}

function onEvent(watch: DeviceWatch, event: DeviceUnitEvent): void {
  if (event.kind === 'resync') {
    checkAll(watch, watch.stop.signal).catch(() => undefined); // the connection is lost again; the next resync follows
    return;
  }
  const unit = event.unit.replace(ALIAS, 'dev-');
  if (!mayBeDisk(unit)) return;
  // Streams end now. The second check undoes a possible adoption by the current one.
  if (event.kind === 'removed') {
    watch.named.delete(unit);
    forget(watch, unit);
  }
  check(watch, unit);
}

async function checkAll(watch: DeviceWatch, signal: AbortSignal): Promise<void> {
  const found = (await watch.deps.units.listUnits(['dev-*.device'], signal)).filter(mayBeDisk);
  for (const unit of new Set([...found, ...watch.known.keys()])) check(watch, unit);
  await watch.working;
  if (watch.hasListed) return;
  watch.hasListed = true;
  watch.sink?.listed?.();
}

function check(watch: DeviceWatch, unit: string): void {
  if (watch.stop.signal.aborted) return;
  watch.pending.add(unit);
  watch.working ??= checkPending(watch);
}

async function checkPending(watch: DeviceWatch): Promise<void> {
  const { pending, unanswered, stop } = watch;
  for (const unit of pending) {
    if (stop.signal.aborted) break;
    pending.delete(unit);
    const timeout = AbortSignal.timeout(QUESTION_TIMEOUT_MS);
    try {
      await withEither([stop.signal, timeout], (signal) => examine(watch, unit, signal));
      unanswered.delete(unit);
    } catch (error) {
      if (stop.signal.aborted) break;
      const why = timeout.aborted ? `no answer within ${QUESTION_TIMEOUT_MS / 1_000} s` : reasonOf(error);
      tryAgainLater(watch, unit, why, error);
    }
  }
  // Not after the promise settles, because a unit that is added in between would never be checked.
  watch.working = undefined;
}

function tryAgainLater(watch: DeviceWatch, unit: string, why: string, err: unknown): void {
  const { unanswered, deps } = watch;
  if (!unanswered.has(unit)) {
    const message = `systemd and udev do not tell what ${unit} is: ${why}. They are asked again until they do`;
    deps.log.warn({ unit, err }, message);
  }
  unanswered.set(unit, (unanswered.get(unit) ?? 0) + 1);
  setTimeout(() => check(watch, unit), deps.retryMs).unref();
}

async function examine(watch: DeviceWatch, unit: string, signal: AbortSignal): Promise<void> {
  const { named, deps } = watch;
  const sysfsPath = await activeBlockDevice(deps.units, unit, signal);
  if (sysfsPath === undefined) {
    named.delete(unit);
    checkDiskOf(watch, unit);
    return forget(watch, unit);
  }
  const verdict = await judgeDevice(sysfsPath, deps.query, deps.paths, signal, named.has(unit));
  if (verdict.kind === 'medium') adopt(watch, unit, verdict.device);
  else if (verdict.kind === 'refused') refuse(watch, unit, verdict.name, verdict.reason);
  else forget(watch, unit);
  checkDiskOf(watch, unit);
}

/** A disk counts as bare only without any filesystem on its partitions. */
function checkDiskOf(watch: DeviceWatch, unit: string): void {
  const name = PARTITION.exec(unit)?.[1];
  if (name === undefined) return;
  const disk = `${name}.device`;
  if (watch.known.has(disk) || !watch.known.has(unit)) check(watch, disk);
}

/** Unless it was already reported. */
function adopt(watch: DeviceWatch, unit: string, device: Device): void {
  const { known, deps } = watch;
  const before = known.get(unit);
  const seq = device.diskSeq ?? `u${watch.nextWithoutSeq}`;
  const mediumId = `${seq}-${device.name}`;
  const isSame = device.diskSeq === undefined || before?.mediumId === mediumId;
  const filesystem = `${device.filesystem} ${device.filesystemUuid}`;
  if (before !== undefined && isSame && before.filesystem === filesystem) return;
  if (device.diskSeq === undefined) watch.nextWithoutSeq += 1;
  forget(watch, unit);
  known.set(unit, { mediumId, filesystem });
  watch.sink?.arrived(createPluggedDevice(mediumId, device, deps));
}

function refuse(watch: DeviceWatch, unit: string, name: string, reason: string): void {
  const { refused, deps } = watch;
  if (refused.get(unit) === reason) return;
  forget(watch, unit);
  refused.set(unit, reason);
  deps.log.info({ medium: name, messageId: messageIds.mediumRefused }, `${name} is left alone: ${reason}`);
}

function forget({ known, refused, sink }: DeviceWatch, unit: string): void {
  const medium = known.get(unit);
  refused.delete(unit);
  if (medium === undefined) return;
  known.delete(unit);
  sink?.left(medium.mediumId);
}

/** As {@link MediaProvider.load}, for a path below `/dev`. */
async function loadDevice(watch: DeviceWatch, path: string, signal: AbortSignal): Promise<string | undefined> {
  if (!path.startsWith('/dev/')) return undefined;
  const { units, query, paths } = watch.deps;
  const unit = unitNameOfPath(path, 'device');
  const sysfsPath = await activeBlockDevice(units, unit, signal);
  if (sysfsPath === undefined) {
    throw loadError(
      `${path} is not a block device that systemd knows; 'lsblk' shows those that are there, as /dev/sdb1`,
    );
  }
  const verdict = await judgeDevice(sysfsPath, query, paths, signal, true);
  if (verdict.kind === 'refused') throw loadError(`${path} is left alone: ${verdict.reason}`);
  if (verdict.kind === 'other') throw loadError(`${path} has no filesystem; its partition may, see 'lsblk -f'`);
  watch.named.add(unit);
  watch.refused.delete(unit);
  const before = watch.known.get(unit);
  adopt(watch, unit, verdict.device);
  // A known medium is mounted again if necessary, and read again.
  if (before !== undefined && watch.known.get(unit) === before) watch.sink?.changed(before.mediumId);
  return verdict.device.name;
}

function mayBeDisk(unit: string): boolean {
  return KERNEL_NAME.test(unit) && !NEVER_A_DISK.test(unit);
}

async function activeBlockDevice(units: DeviceUnits, unit: string, signal: AbortSignal): Promise<string | undefined> {
  if ((await units.unitProperty(unit, 'Unit', 'ActiveState', signal)) !== 'active') return undefined;
  const sysfsPath = await units.unitProperty(unit, 'Device', 'SysFSPath', signal);
  return typeof sysfsPath === 'string' && sysfsPath.includes('/block/') ? sysfsPath : undefined;
}

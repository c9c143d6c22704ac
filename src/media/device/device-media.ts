import type { MediumId } from '../../domain/model/medium.ts';
import { reasonOf } from '../../platform/app-error.ts';
import type { Log } from '../../platform/log.ts';
import { messageIds } from '../../platform/message-ids.ts';
import type { Unsubscribe } from '../../platform/subscription.ts';
import { loadError } from '../provider/load-error.ts';
import type { MediaProvider, MediaSink } from '../provider/media-provider.ts';
import { makePrivateFolder } from '../provider/private-folder.ts';
import { type Device, judgeDevice, type MachinePaths, machinePaths } from './device.ts';
import type { DeviceUnitEvent, DeviceUnits } from './device-units.ts';
import { createPluggedDevice } from './plugged-device.ts';
import { queryUdev, type UdevQuery } from './udev.ts';
import { unitNameOfPath } from './unit-name.ts';

/** What {@link createDeviceMedia} needs. */
export interface DeviceMediaDeps {
  readonly units: DeviceUnits;
  readonly log: Log;
  /** Directory of our mount points: `/run/stickpin/media`. */
  readonly mountDirectory: string;
  /** What may be mounted, by udev's `ID_FS_TYPE`: the setting `media.filesystems`. */
  readonly filesystems: readonly string[];
  /** Default: `udevadm info`. */
  readonly query?: UdevQuery;
  /** Default: the real places. */
  readonly paths?: MachinePaths;
  /** After how long a device is looked at again when systemd or udev gave no answer, in milliseconds. Default 5 s. */
  readonly retryMs?: number;
}

/** Units of kernel names only: the same device has others by label, UUID and path, which all contain a further dash. */
const KERNEL_NAME = /^dev-[^-]+\.device$/;
/** Our rule's alias for the same device: it comes and goes with the medium even where the drive's own unit stays. */
const ALIAS = /^dev-stickpin-/;
/** Every machine has dozens of terminals. */
const NEVER_A_DISK = /^dev-(tty|hvc|rfkill|vport|ptmx|zram)/;
const QUESTION_TIMEOUT_MS = 10_000;
/** So often a unit that gives no answer is tried before the first look counts as done without it. */
const TRIES_OF_FIRST_LOOK = 3;

interface Known {
  readonly mediumId: MediumId;
  readonly filesystemUuid: string;
}

/**
 * Sticks, cards and discs, as systemd tells of them (docs/runtime-facts.md, fact 25) and our udev
 * rule marks them.
 *
 * Events only say which unit to look at; what is true is then asked for, one unit after the other,
 * so that neither their order nor a lost one matters.
 */
export function createDeviceMedia(deps: DeviceMediaDeps): MediaProvider {
  const { units, log, query = queryUdev, paths = machinePaths, retryMs = 5_000 } = deps;
  const known = new Map<string, Known>();
  const refused = new Map<string, string>();
  const pending = new Set<string>();
  /** Units that could not be asked about, and how often they were tried. */
  const unanswered = new Map<string, number>();
  let hasLooked = false;
  /** Units that somebody named; they need no mark of our rule. */
  const named = new Set<string>();
  const stop = new AbortController();
  let sink: MediaSink | undefined;
  let unsubscribe: Unsubscribe | undefined;
  let working: Promise<void> | undefined;
  let nextWithoutSeq = 1;

  const forget = (unit: string): void => {
    const medium = known.get(unit);
    refused.delete(unit);
    if (medium === undefined) return;
    known.delete(unit);
    sink?.left(medium.mediumId);
  };
  const adopt = (unit: string, device: Device): void => {
    const before = known.get(unit);
    const seq = device.diskSeq ?? `u${nextWithoutSeq}`;
    const mediumId = `${seq}-${device.name}`;
    const isSame = device.diskSeq === undefined || before?.mediumId === mediumId;
    if (before !== undefined && isSame && before.filesystemUuid === device.filesystemUuid) return;
    if (device.diskSeq === undefined) nextWithoutSeq += 1;
    forget(unit);
    known.set(unit, { mediumId, filesystemUuid: device.filesystemUuid });
    sink?.arrived(createPluggedDevice(mediumId, device, { ...deps, paths }));
  };
  const refuse = (unit: string, name: string, reason: string): void => {
    if (refused.get(unit) === reason) return;
    forget(unit);
    refused.set(unit, reason);
    log.info({ medium: name, messageId: messageIds.mediumRefused }, `${name} is left alone: ${reason}`);
  };
  const examine = async (unit: string, signal: AbortSignal): Promise<void> => {
    const sysfsPath = await activeBlockDevice(units, unit, signal);
    if (sysfsPath === undefined) {
      named.delete(unit);
      return forget(unit);
    }
    const verdict = await judgeDevice(sysfsPath, query, paths, signal, named.has(unit));
    if (verdict.kind === 'medium') adopt(unit, verdict.device);
    else if (verdict.kind === 'refused') refuse(unit, verdict.name, verdict.reason);
    else forget(unit);
  };
  const work = async (): Promise<void> => {
    for (const unit of pending) {
      if (stop.signal.aborted) break;
      pending.delete(unit);
      try {
        await examine(unit, AbortSignal.any([stop.signal, AbortSignal.timeout(QUESTION_TIMEOUT_MS)]));
        unanswered.delete(unit);
      } catch (err) {
        if (stop.signal.aborted) break;
        if (!unanswered.has(unit))
          log.warn({ unit, err }, `${unit} could not be looked at; it is tried again by itself`);
        unanswered.set(unit, (unanswered.get(unit) ?? 0) + 1);
        setTimeout(() => lookAt(unit), retryMs).unref();
      }
    }
    // Here and not when the promise settles: a unit that is added in between would be left lying.
    working = undefined;
  };
  const lookAt = (unit: string): void => {
    if (stop.signal.aborted) return;
    pending.add(unit);
    working ??= work();
  };
  const lookAtAll = async (signal: AbortSignal): Promise<void> => {
    const found = (await units.listUnits(['dev-*.device'], signal)).filter(mayBeDisk);
    for (const unit of new Set([...found, ...known.keys()])) lookAt(unit);
    await working;
    if (hasLooked) return;
    hasLooked = true;
    sink?.lookedAt?.();
  };
  const onEvent = (event: DeviceUnitEvent): void => {
    if (event.kind === 'resync') {
      lookAtAll(stop.signal).catch(() => undefined); // the connection is gone again; the next resync follows
      return;
    }
    const unit = event.unit.replace(ALIAS, 'dev-');
    if (!mayBeDisk(unit)) return;
    // Streams end now; the second look undoes what a look under way may still adopt.
    if (event.kind === 'removed') {
      named.delete(unit);
      forget(unit);
    }
    lookAt(unit);
  };

  return {
    start: async (to) => {
      sink = to;
      // An earlier version may have made it for everybody to enter.
      await makePrivateFolder(deps.mountDirectory).catch((err: unknown) => {
        log.warn({ err }, `${deps.mountDirectory} can't be made: ${reasonOf(err)}; no medium is mounted without it`);
      });
      unsubscribe = units.onDeviceUnit(onEvent);
    },
    isLookedAt: () => hasLooked && [...unanswered.values()].every((tries) => tries >= TRIES_OF_FIRST_LOOK),
    rescan: lookAtAll,
    load: async (path, signal) => {
      if (!path.startsWith('/dev/')) return undefined;
      const unit = unitNameOfPath(path, 'device');
      const sysfsPath = await activeBlockDevice(units, unit, signal);
      if (sysfsPath === undefined) {
        throw loadError(
          `${path} is no block device that systemd knows; 'lsblk' shows those that are there, as /dev/sdb1`,
        );
      }
      const verdict = await judgeDevice(sysfsPath, query, paths, signal, true);
      if (verdict.kind === 'refused') throw loadError(`${path} is left alone: ${verdict.reason}`);
      if (verdict.kind === 'other') throw loadError(`${path} has no filesystem; its partition may, see 'lsblk -f'`);
      named.add(unit);
      refused.delete(unit);
      const before = known.get(unit);
      adopt(unit, verdict.device);
      // One that is known already is mounted, if it was unmounted, and read again.
      if (before !== undefined && known.get(unit) === before) sink?.changed(before.mediumId);
      return verdict.device.name;
    },
    dispose: async () => {
      unsubscribe?.();
      stop.abort();
      await working;
    },
  };
}

function mayBeDisk(unit: string): boolean {
  return KERNEL_NAME.test(unit) && !NEVER_A_DISK.test(unit);
}

async function activeBlockDevice(units: DeviceUnits, unit: string, signal: AbortSignal): Promise<string | undefined> {
  if ((await units.unitProperty(unit, 'Unit', 'ActiveState', signal)) !== 'active') return undefined;
  const sysfsPath = await units.unitProperty(unit, 'Device', 'SysFSPath', signal);
  return typeof sysfsPath === 'string' && sysfsPath.includes('/block/') ? sysfsPath : undefined;
}

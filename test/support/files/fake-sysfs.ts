import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { MachinePaths, UdevProperties, UdevQuery } from '../../../src/media/device/device.ts';

/**
 * A machine's disks as files below a temporary directory: /sys, mountinfo, fstab, and udev's
 * properties.
 */
export interface FakeMachine {
  readonly paths: MachinePaths;
  readonly query: UdevQuery;
  /** Adds a whole disk, or a partition `sdb1` of `sdb`; returns its path below /sys. */
  addDevice(name: string, number: string, properties?: UdevProperties): string;
  /** Says that `upper` (as `dm-0`) is made of `lower`. */
  stack(upper: string, lower: string): void;
  removeDevice(name: string): void;
  mount(number: string, mountPoint: string, source: string, root?: string, superOptions?: string): void;
  /** Takes the mounts at a place away. */
  unmount(mountPoint: string): void;
  /** Tells all options of a mounted ext4. */
  setExt4Options(name: string, options: readonly string[]): void;
  setFstab(text: string): void;
  setSwaps(text: string): void;
  [Symbol.dispose](): void;
}

/**
 * Makes an empty {@link FakeMachine}. A device of it is a medium by default: vfat, marked by our
 * rule.
 */
export function createFakeMachine(): FakeMachine {
  const base = mkdtempSync(join(tmpdir(), 'stickpin-machine-'));
  const paths = {
    sysRoot: join(base, 'sys'),
    mountinfo: join(base, 'mountinfo'),
    fstab: join(base, 'fstab'),
    swaps: join(base, 'swaps'),
    ext4: join(base, 'ext4'),
  };
  const devices = new Map<string, { path: string; properties: UdevProperties }>();
  const mounts: { readonly line: string; readonly mountPoint: string }[] = [];
  const writeMounts = () => writeFileSync(paths.mountinfo, mounts.map(({ line }) => line).join('\n'));
  let nextSeq = 1;
  mkdirSync(join(paths.sysRoot, 'dev/block'), { recursive: true });
  mkdirSync(join(paths.sysRoot, 'class/block'), { recursive: true });
  writeFileSync(paths.mountinfo, '');

  const addDevice = (name: string, number: string, properties: UdevProperties = {}): string => {
    const disk = /^(sd[a-z]+)\d+$/.exec(name)?.[1];
    const parent = disk === undefined ? undefined : devices.get(disk);
    const path = parent === undefined ? join(paths.sysRoot, 'devices/block', name) : join(parent.path, name);
    const diskSeq = parent?.properties.DISKSEQ ?? String(nextSeq++);
    mkdirSync(join(path, 'holders'), { recursive: true });
    mkdirSync(join(path, 'slaves'), { recursive: true });
    if (parent === undefined) writeFileSync(join(path, 'diskseq'), `${diskSeq}\n`);
    else writeFileSync(join(path, 'partition'), '1\n');
    for (const link of [join('dev/block', number), join('class/block', name)]) {
      rmSync(join(paths.sysRoot, link), { force: true });
      symlinkSync(path, join(paths.sysRoot, link));
    }
    const [major = '', minor = ''] = number.split(':');
    const own = {
      DEVNAME: `/dev/${name}`,
      DEVTYPE: parent === undefined ? 'disk' : 'partition',
      MAJOR: major,
      MINOR: minor,
      DISKSEQ: diskSeq,
      USEC_INITIALIZED: '1',
      STICKPIN_MEDIUM: '1',
      ID_FS_USAGE: 'filesystem',
      ID_FS_TYPE: 'vfat',
      ID_FS_UUID: `UUID-${name}`,
    };
    devices.set(name, { path, properties: { ...own, ...properties } });
    return path;
  };
  const pathOf = (name: string): string => devices.get(name)?.path ?? join(paths.sysRoot, 'none');
  return {
    paths,
    query: async (sysfsPath) => [...devices.values()].find(({ path }) => path === sysfsPath)?.properties,
    addDevice,
    stack: (upper, lower) => {
      symlinkSync(pathOf(lower), join(pathOf(upper), 'slaves', lower));
      symlinkSync(pathOf(upper), join(pathOf(lower), 'holders', upper));
    },
    removeDevice: (name) => {
      rmSync(pathOf(name), { recursive: true, force: true });
      devices.delete(name);
    },
    mount: (number, mountPoint, source, root = '/', superOptions = 'ro') => {
      const type = [...devices.values()].find(({ properties }) => properties.DEVNAME === source)?.properties.ID_FS_TYPE;
      const line = `${mounts.length + 20} 1 ${number} ${root} ${mountPoint} ro - ${type ?? 'auto'} ${source} ${superOptions}`;
      mounts.push({ line, mountPoint });
      writeMounts();
    },
    unmount: (mountPoint) => {
      mounts.splice(0, mounts.length, ...mounts.filter((mount) => mount.mountPoint !== mountPoint));
      writeMounts();
    },
    setExt4Options: (name, options) => {
      mkdirSync(join(paths.ext4, name), { recursive: true });
      writeFileSync(join(paths.ext4, name, 'options'), `${options.join('\n')}\n`);
    },
    setFstab: (text) => writeFileSync(paths.fstab, text),
    setSwaps: (text) => writeFileSync(paths.swaps, text),
    [Symbol.dispose]: () => rmSync(dirname(paths.sysRoot), { recursive: true, force: true }),
  };
}

import { chmodSync, mkdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DeviceMedia } from '../../../../src/media/device/device-media.ts';
import type { MediaProvider, PluggedMedium } from '../../../../src/media/media-provider.ts';
import { createFakeDeviceUnits, type FakeDeviceUnits } from '../../../support/bus/fake-device-units.ts';
import { eventually } from '../../../support/eventually.ts';
import { createFakeMachine, type FakeMachine } from '../../../support/files/fake-sysfs.ts';
import { atEnd, temporaryFolder } from '../../../support/files/temporary-folder.ts';
import { createRecordingLog, type RecordingLog } from '../../../support/recording-log.ts';

const never = new AbortController().signal;
const UNIT = 'dev-sdb1.device';

describe('device media', () => {
  let machine: FakeMachine;
  let units: FakeDeviceUnits;
  let provider: MediaProvider;
  let log: RecordingLog;
  let plugged: Map<string, PluggedMedium>;
  let story: string[];
  let looks: number;
  let mountDirectory: string;

  beforeEach(async () => {
    machine = createFakeMachine();
    units = createFakeDeviceUnits();
    log = createRecordingLog();
    plugged = new Map();
    story = [];
    looks = 0;
    mountDirectory = temporaryFolder();
    atEnd(() => machine[Symbol.dispose]());
    provider = new DeviceMedia({
      units,
      log,
      mountDirectory,
      filesystems: ['vfat', 'ext4'],
      query: machine.query,
      paths: machine.paths,
      retryMs: 10,
    });
    await provider.start(
      {
        arrived: (medium) => {
          plugged.set(medium.mediumId, medium);
          story.push(`+${medium.mediumId}`);
        },
        changed: (mediumId) => story.push(`~${mediumId}`),
        listed: () => {
          looks += 1;
        },
        left: (mediumId) => {
          plugged.delete(mediumId);
          story.push(`-${mediumId}`);
        },
      },
      never,
    );
  });
  afterEach(() => provider.dispose());

  const addStick = (): string => {
    machine.addDevice('sdb', '8:16', { ID_FS_USAGE: '' });
    return machine.addDevice('sdb1', '8:17');
  };
  const stick = async (): Promise<PluggedMedium> => {
    units.plug(UNIT, addStick());
    return eventually(() => {
      const medium = plugged.get('1-sdb1');
      expect(medium).toBeDefined();
      return medium as PluggedMedium;
    });
  };
  /** Mounting as systemd does it: the mount point is there and in mountinfo. */
  const mountsWell = (): void => {
    units.onMount = async ({ where, what }) => {
      mkdirSync(where, { recursive: true });
      machine.mount('8:17', where, what);
    };
  };

  it('reports a stick that is plugged in and removed', async () => {
    const medium = await stick();
    expect(medium).toMatchObject({ label: 'sdb1', isDropFolder: false });
    machine.removeDevice('sdb1');
    units.unplug(UNIT);
    expect(story).toEqual(['+1-sdb1', '-1-sdb1']);
  });

  it('counts the first check as complete only after each unit has answered', async () => {
    expect(provider.isListed?.()).toBe(false);
    units.putQuietly(UNIT, addStick());
    units.send({ kind: 'resync' });
    expect(provider.isListed?.()).toBe(false);
    await eventually(() => expect(provider.isListed?.()).toBe(true));
    expect(story).toEqual(['+1-sdb1']);
    await provider.rescan(never);
    expect(looks).toBe(1);
  });

  it('waits for a unit without an answer, and continues without it after three tries', async () => {
    const path = addStick();
    let tries = 0;
    const ask = units.unitProperty;
    Object.assign(units, {
      unitProperty: async (...args: Parameters<typeof ask>) => {
        tries += 1;
        if (tries <= 4) throw new Error('no answer');
        return ask(...args);
      },
    });
    units.putQuietly(UNIT, path);
    units.send({ kind: 'resync' });
    await eventually(() => expect(looks).toBe(1));
    expect(tries).toBeLessThan(3);
    expect(provider.isListed?.()).toBe(false);
    await eventually(() => expect(provider.isListed?.()).toBe(true));
    expect(tries).toBeGreaterThanOrEqual(3);
    await eventually(() => expect(plugged.has('1-sdb1')).toBe(true));
    expect(log.lines.filter(({ level }) => level === 'warn').map(({ message }) => message)).toEqual([
      `systemd and udev do not tell what ${UNIT} is: no answer. They are asked again until they do`,
    ]);
  });

  it('knows the mounts of a stick as a whole among all others', async () => {
    const medium = await stick();
    const entry = {
      device: '8:17',
      root: '/',
      mountPoint: '/mnt/a',
      type: 'vfat',
      source: '/dev/sdb1',
      superOptions: [],
    };
    const mounts = [
      { ...entry, device: '8:1', source: '/dev/sda1', mountPoint: '/' },
      { ...entry, source: '/dev/disk/by-label/x' },
      { ...entry, root: '/part', mountPoint: '/mnt/part' },
      { ...entry, device: '0:40', mountPoint: '/mnt/b' },
    ];
    expect(medium.mountPoints?.(mounts)).toEqual(['/mnt/a', '/mnt/b']);
  });

  it('loads an unmarked device that somebody names, and forgets it when it is removed', async () => {
    const drive = () => machine.addDevice('sdb', '8:16', { STICKPIN_MEDIUM: '0' });
    units.plug('dev-sdb.device', drive());
    expect(await provider.load?.('/dev/sdb', never)).toBe('sdb');
    expect(story).toEqual(['+1-sdb']);
    await provider.rescan(never);
    expect(story).toEqual(['+1-sdb']);
    expect(await provider.load?.('/dev/sdb', never)).toBe('sdb');
    expect(story.splice(1)).toEqual(['~1-sdb']);
    machine.removeDevice('sdb');
    units.unplug('dev-sdb.device');
    await eventually(() => expect(story).toEqual(['+1-sdb', '-1-sdb']));
    units.plug('dev-sdb.device', drive());
    await provider.rescan(never);
    expect(story).toEqual(['+1-sdb', '-1-sdb']);
  });

  it('reports a stick without a filesystem, what to do with it, and what it becomes', async () => {
    const none = { STICKPIN_MEDIUM: 'bare', ID_FS_USAGE: '', ID_FS_TYPE: '', ID_FS_UUID: '' };
    units.plug('dev-sdb.device', machine.addDevice('sdb', '8:16', none));
    const bare = await eventually(() => plugged.get('1-sdb') ?? expect.unreachable());
    await expect(bare.open(never)).rejects.toMatchObject({
      code: 'media/filesystem',
      message:
        "it has no filesystem that stickpin can read. Write it again with 'stickpin bundle write', or format it as vfat or ext4 and copy the bundle to it",
    });
    expect(units.mounts).toEqual([]);
    units.plug(UNIT, machine.addDevice('sdb1', '8:17'));
    await eventually(() => expect(story).toEqual(['+1-sdb', '+1-sdb1', '-1-sdb']));
    machine.removeDevice('sdb1');
    units.unplug(UNIT);
    await eventually(() => expect(story.slice(3)).toEqual(['-1-sdb1', '+1-sdb']));
    units.plug('dev-stickpin-sdb.device', machine.addDevice('sdb', '8:16', { DISKSEQ: '1', ID_FS_UUID: '' }));
    await eventually(() => expect(story.slice(5)).toEqual(['-1-sdb', '+1-sdb']));
    await expect(plugged.get('1-sdb')?.open(never)).rejects.not.toMatchObject({ code: 'media/filesystem' });
  });

  it('refuses a disk of the system, one in fstab, and one without a filesystem', async () => {
    units.plug('dev-sda.device', machine.addDevice('sda', '8:0', { STICKPIN_MEDIUM: '0' }));
    machine.mount('8:0', '/', '/dev/sda');
    units.plug('dev-sdc.device', machine.addDevice('sdc', '8:32', { STICKPIN_MEDIUM: '0' }));
    machine.setFstab('UUID=UUID-sdc /data ext4 defaults 0 0\n');
    units.plug('dev-sdd.device', machine.addDevice('sdd', '8:48', { ID_FS_USAGE: 'raid' }));
    for (const [path, why] of [
      ['/dev/sda', /left alone: the system itself/],
      ['/dev/sdc', /left alone: .*fstab/],
      ['/dev/sdd', /has no filesystem/],
      ['/dev/sdz', /not a block device that systemd knows/],
    ] as const) {
      await expect(provider.load?.(path, never)).rejects.toMatchObject({
        code: 'media/load',
        disposition: 'reject',
        message: expect.stringMatching(why),
      });
    }
    expect(await provider.load?.('/mnt/share', never)).toBeUndefined();
    expect(story).toEqual([]);
  });

  it('finds sticks that were plugged in before the start', async () => {
    units.putQuietly(UNIT, addStick());
    units.send({ kind: 'resync' });
    await eventually(() => expect(story).toEqual(['+1-sdb1']));
  });

  it('checks a device again automatically after a failure', async () => {
    const ask = units.unitProperty;
    let isDown = true;
    units.unitProperty = async (...question) => {
      if (isDown) throw new Error('no answer');
      return ask(...question);
    };
    units.plug(UNIT, addStick());
    await eventually(() => expect(log.lines.filter(({ level }) => level === 'warn')).toHaveLength(1));
    isDown = false;
    await eventually(() => expect(story).toEqual(['+1-sdb1']));
  });

  it('finds sticks that were plugged in or removed while systemd did not answer', async () => {
    await stick();
    machine.removeDevice('sdb1');
    machine.removeDevice('sdb');
    units.putQuietly('dev-sdc.device', machine.addDevice('sdc', '8:32'));
    units.send({ kind: 'resync' });
    await eventually(() => expect([...plugged.keys()]).toEqual(['2-sdc']));
  });

  it('gives the same stick another id when it is plugged in again', async () => {
    await stick();
    machine.removeDevice('sdb1');
    machine.removeDevice('sdb');
    units.unplug(UNIT);
    units.plug(UNIT, addStick());
    await eventually(() => expect(story).toEqual(['+1-sdb1', '-1-sdb1', '+2-sdb1']));
  });

  it('recognises a new stick behind an unchanged unit after any event', async () => {
    await stick();
    machine.removeDevice('sdb1');
    machine.removeDevice('sdb');
    addStick();
    units.send({ kind: 'changed', unit: UNIT });
    await eventually(() => expect(story).toEqual(['+1-sdb1', '-1-sdb1', '+2-sdb1']));
  });

  it('reports one stick once, however many events there are', async () => {
    await stick();
    for (let count = 0; count < 5; count += 1) units.send({ kind: 'changed', unit: UNIT });
    await provider.rescan(never);
    expect(story).toEqual(['+1-sdb1']);
  });

  it('follows the alias of our rule to the drive behind it', async () => {
    const path = machine.addDevice('sr0', '11:0', { ID_FS_USAGE: '' });
    units.plug('dev-sr0.device', path);
    await provider.rescan(never);
    expect(story).toEqual([]);
    machine.addDevice('sr0', '11:0', { ID_FS_TYPE: 'iso9660' });
    units.send({ kind: 'new', unit: 'dev-stickpin-sr0.device' });
    await eventually(() => expect(story).toEqual(['+2-sr0']));
  });

  it('reports no medium for an inactive device unit', async () => {
    units.plug(UNIT, addStick(), 'inactive');
    await provider.rescan(never);
    expect(story).toEqual([]);
  });

  it('does not query terminals and links', async () => {
    let asked = 0;
    const { unitProperty } = units;
    units.unitProperty = (...args) => {
      asked += 1;
      return unitProperty(...args);
    };
    for (const unit of ['dev-ttyS0.device', 'dev-disk-by\\x2duuid-1234.device', 'sys-devices-x-block-sdb.device']) {
      units.plug(unit, '/sys/class/block/x');
    }
    await provider.rescan(never);
    expect(asked).toBe(0);
  });

  it('reports once why it ignores a disk', async () => {
    machine.addDevice('sda', '8:0', { ID_FS_USAGE: '' });
    const path = machine.addDevice('sda1', '8:1');
    machine.mount('8:1', '/', '/dev/sda1');
    units.plug('dev-sda1.device', path);
    await provider.rescan(never);
    await provider.rescan(never);
    expect(story).toEqual([]);
    expect(log.lines.map(({ message }) => message)).toEqual(['sda1 is left alone: the system itself is on sda']);
    expect(log.kinds()).toEqual(['mediumRefused']);
  });

  it('continues when a device can not be queried', async () => {
    units.plug(UNIT, addStick());
    const failing = units.unitProperty;
    units.unitProperty = async () => {
      throw new Error('bus trouble');
    };
    units.send({ kind: 'changed', unit: UNIT });
    await eventually(() => expect(log.lines.at(-1)).toMatchObject({ level: 'warn', fields: { unit: UNIT } }));
    units.unitProperty = failing;
    await provider.rescan(never);
    expect([...plugged.keys()]).toEqual(['1-sdb1']);
  });

  describe('mounting', () => {
    it('mounts read-only at a separate path', async () => {
      mountsWell();
      const medium = await stick();
      const where = join(mountDirectory, '1-sdb1');
      expect((await medium.open(never)).place).toBe(where);
      expect(units.mounts).toEqual([
        {
          unit: expect.stringMatching(/-1\\x2dsdb1\.mount$/),
          description: 'Medium sdb1',
          what: '/dev/sdb1',
          where,
          type: 'vfat',
          options: 'ro,nosuid,nodev,noexec,nosymfollow,errors=remount-ro,uid=0,gid=0,fmask=0177,dmask=0077',
        },
      ]);
      await medium.release();
      expect(units.stopped).toEqual([units.mounts[0]?.unit]);
    });

    it('mounts once, and finds its own mount after a restart', async () => {
      mountsWell();
      const medium = await stick();
      const where = (await medium.open(never)).place;
      expect((await medium.open(never)).place).toBe(where);
      expect(units.mounts).toHaveLength(1);
    });

    it('reads a stick where somebody else mounted it, and does not change that mount', async () => {
      const elsewhere = join(mountDirectory, 'elsewhere');
      mkdirSync(elsewhere);
      const medium = await stick();
      machine.mount('8:17', '/not/readable', '/dev/sdb1');
      machine.mount('8:17', elsewhere, '/dev/sdb1');
      machine.mount('8:17', '/part/of/it', '/dev/sdb1', '/sub');
      expect((await medium.open(never)).place).toBe(elsewhere);
      await medium.release();
      expect(units.mounts).toEqual([]);
      expect(units.stopped).toEqual([]);
    });

    it('says what to do about a filesystem that can not be mounted', async () => {
      units.onMount = async () => {
        throw new Error('ended with "failed"');
      };
      const medium = await stick();
      await expect(medium.open(never)).rejects.toMatchObject({
        code: 'media/mount',
        message: expect.stringMatching(/\/dev\/sdb1 \(vfat\).*ended with "failed".*journalctl -u/),
      });
    });

    it('refuses a mount that is not in mountinfo', async () => {
      const medium = await stick();
      await expect(medium.open(never)).rejects.toMatchObject({ code: 'media/mount' });
    });

    it('gives only root access to the folder of the mounts, also to an existing one with another mode', async () => {
      const mode = () => (statSync(mountDirectory).mode & 0o777).toString(8);
      expect(mode()).toBe('700');
      chmodSync(mountDirectory, 0o755);
      mountsWell();
      await (await stick()).open(never);
      expect(mode()).toBe('700');
    });

    describe('a filesystem that panics at an error', () => {
      const addExt4 = async (): Promise<PluggedMedium> => {
        units.plug('dev-sdb.device', machine.addDevice('sdb', '8:16', { ID_FS_TYPE: 'ext4' }));
        return eventually(() => plugged.get('1-sdb') ?? expect.unreachable());
      };
      const where = () => join(mountDirectory, '1-sdb');
      const mountsSafely = (): void => {
        units.onMount = async () => {
          machine.mount('8:16', where(), '/dev/sdb');
          machine.setExt4Options('sdb', ['ro', 'errors=remount-ro']);
        };
      };

      it('is not read where somebody else mounted it with this option from its superblock', async () => {
        machine.setExt4Options('sdb', ['rw', 'errors=panic']);
        const medium = await addExt4();
        // It is not even looked at, as the place shows, which can't be.
        const elsewhere = join(mountDirectory, 'elsewhere');
        machine.mount('8:16', elsewhere, '/dev/sdb');
        await expect(medium.open(never)).rejects.toMatchObject({
          code: 'media/in-use',
          message: expect.stringMatching(/sdb is mounted at .*elsewhere with errors=panic.*stickpin rescan/),
        });
        expect(units.stopped).toEqual([]);
      });

      it('is not read when the options of an ext2 are not known', async () => {
        units.plug('dev-sdb.device', machine.addDevice('sdb', '8:16', { ID_FS_TYPE: 'ext2' }));
        const medium = await eventually(() => plugged.get('1-sdb') ?? expect.unreachable());
        machine.mount('8:16', mountDirectory, '/dev/sdb');
        await expect(medium.open(never)).rejects.toMatchObject({ code: 'media/in-use' });
        machine.setExt4Options('sdb', ['ro', 'errors=continue']);
        expect((await medium.open(never)).place).toBe(mountDirectory);
      });

      it('is not read when mountinfo has the option', async () => {
        const medium = await stick();
        const elsewhere = join(mountDirectory, 'elsewhere');
        mkdirSync(elsewhere);
        machine.mount('8:17', elsewhere, '/dev/sdb1', '/', 'ro,errors=panic');
        await expect(medium.open(never)).rejects.toMatchObject({ code: 'media/in-use' });
      });

      it('is mounted again when an earlier version of stickpin mounted it', async () => {
        const medium = await addExt4();
        mkdirSync(where());
        machine.mount('8:16', where(), '/dev/sdb');
        machine.setExt4Options('sdb', ['ro', 'errors=panic']);
        units.onStop = async () => machine.unmount(where());
        mountsSafely();
        expect((await medium.open(never)).place).toBe(where());
        expect([units.stopped, units.mounts.map(({ unit }) => unit)]).toEqual([
          [units.mounts[0]?.unit],
          [expect.stringContaining('.mount')],
        ]);
      });

      it('is unmounted at once when the kernel kept other options than those asked for', async () => {
        const medium = await addExt4();
        mountsSafely();
        const mountWell = units.onMount;
        units.onMount = async (request) => {
          await mountWell(request);
          machine.setExt4Options('sdb', ['ro', 'errors=panic']);
        };
        await expect(medium.open(never)).rejects.toMatchObject({ code: 'media/in-use' });
        expect(units.stopped).toEqual([units.mounts[0]?.unit]);
      });
    });

    it('removes its own mount when the settings no longer allow its filesystem', async () => {
      units.plug('dev-sdb.device', machine.addDevice('sdb', '8:16', { ID_FS_TYPE: 'xfs' }));
      const medium = await eventually(() => plugged.get('1-sdb') ?? expect.unreachable());
      const where = join(mountDirectory, '1-sdb');
      machine.mount('8:16', where, '/dev/sdb');
      await expect(medium.open(never)).rejects.toMatchObject({ code: 'media/filesystem' });
      expect(units.stopped).toEqual([expect.stringMatching(/1\\x2dsdb\.mount$/)]);
      expect(units.mounts).toEqual([]);
    });

    it('names the filesystems that it reads, and how others are allowed', async () => {
      units.plug('dev-sdc.device', machine.addDevice('sdc', '8:32', { ID_FS_TYPE: 'xfs' }));
      await eventually(() => expect(plugged.size).toBe(1));
      const [xfs] = plugged.values();
      await expect(xfs?.open(never)).rejects.toMatchObject({
        code: 'media/filesystem',
        message:
          'it has the filesystem xfs, which is not mounted unless the settings say so: copy the bundle to a medium with one of vfat, ext4, or set media.filesystems = ["vfat", "ext4", "xfs"] in /etc/stickpin/stickpin.toml',
      });
    });

    it('names the supported filesystems when one can not be allowed', async () => {
      units.plug('dev-sdb.device', machine.addDevice('sdb', '8:16', { ID_FS_TYPE: 'hfsplus' }));
      await eventually(() => expect(plugged.size).toBe(1));
      await expect(plugged.get('1-sdb')?.open(never)).rejects.toMatchObject({
        code: 'media/filesystem',
        message:
          'it has the filesystem hfsplus, which stickpin does not mount: copy the bundle to a medium with one of vfat, ext4',
      });
    });

    it('reports media/gone when the stick was removed or replaced before it was mounted', async () => {
      const medium = await stick();
      expect(await medium.isThere(never)).toBe(true);
      units.onMount = async () => {
        writeFileSync(join(machine.paths.sysRoot, 'devices/block/sdb/diskseq'), '9\n');
        throw new Error('no such device');
      };
      await expect(medium.open(never)).rejects.toMatchObject({ code: 'media/gone', disposition: 'wait' });
      expect(await medium.isThere(never)).toBe(false);
      machine.removeDevice('sdb');
      expect(await medium.isThere(never)).toBe(false);
    });
  });
});

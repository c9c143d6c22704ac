import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { seededBytes } from '../support/bundles/sample-image.ts';
import { folderForAll } from '../support/files/temporary-folder.ts';
import { describeMachine } from './machine/describe-machine.ts';
import { markHarnessAsPassed } from './machine/harness-mark.ts';
import { startMachine } from './machine/machine.ts';
import { makeStick, type Stick, type StickOptions } from './machine/qemu/stick.ts';
import type { PlugOptions } from './machine/qemu/usb.ts';

describeMachine('the machine', 'booted', (machine) => {
  const directory = folderForAll();
  let folder: string;
  const content = seededBytes('stick', 6 * 1024 * 1024);

  beforeAll(async () => {
    folder = join(directory, 'folder');
    await mkdir(join(folder, 'a/b'), { recursive: true });
    await writeFile(join(folder, 'a/b/A Long Name.with-case.bin'), content);
    await writeFile(join(folder, 'hello.txt'), 'hello\n');
  });

  // biome-ignore lint/correctness/noEmptyPattern: vitest accepts nothing else as the first argument.
  afterAll(async ({}, { tasks }) => {
    if (tasks.every(({ result }) => result?.state === 'pass')) await markHarnessAsPassed();
  });

  const stick = (name: string, options: Omit<StickOptions, 'image'> = {}): Promise<Stick> =>
    makeStick({ image: join(directory, `${name}.img`), folder, ...options });

  const deviceUnit = async (devicePath: string): Promise<string> => {
    const path = await machine().untilOutput(
      `${devicePath} to appear`,
      `readlink --canonicalize-existing ${devicePath}`,
    );
    return machine().output(`systemd-escape --path --suffix=device ${path}`);
  };

  const active = (unit: string): Promise<string> =>
    machine().untilOutput(`${unit} to be active`, `systemctl is-active '${unit}'`);

  const inactive = (unit: string): Promise<string> =>
    machine().untilOutput(`${unit} to be inactive`, `! systemctl is-active '${unit}'`);

  const mountLazily = async (device: string, name: string): Promise<string> => {
    const unit = `run-${name}.mount`;
    const properties = [
      `What s ${device}`,
      `Where s /run/${name}`,
      'Options s ro,nosuid,nodev,noexec,nosymfollow',
      'LazyUnmount b true',
    ];
    const manager = 'org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager';
    await machine().output(
      `busctl call ${manager} StartTransientUnit 'ssa(sv)a(sa(sv))' ${unit} fail ${properties.length} ${properties.join(' ')} 0`,
    );
    await active(unit);
    return unit;
  };

  test('boots to a running system without a network', async () => {
    expect(await machine().output('systemctl is-system-running')).toBe('running');
    expect(await machine().output('ls /sys/class/net')).toBe('lo');
    expect(await machine().output('hostname')).toBe('node1');
  });

  test('runs commands and carries files, byte for byte', async () => {
    expect(await machine().run('echo out; echo err >&2; exit 3')).toMatchObject({
      exitCode: 3,
      stdout: 'out\n',
      stderr: 'err\n',
    });
    const bytes = seededBytes('file', 100_000);
    await machine().putFile("/root/new folder/it's.bin", bytes, 0o600);
    expect((await machine().getFile("/root/new folder/it's.bin")).equals(bytes)).toBe(true);
    expect(await machine().output(`stat --format %a "/root/new folder/it's.bin"`)).toBe('600');
    const shared = await machine().share(join(folder, 'a/b/A Long Name.with-case.bin'));
    expect(await machine().output(`stat --format %s '${shared}'`)).toBe(String(content.length));
    await expect(machine().run('exec sleep 60', { timeoutMs: 500 })).rejects.toThrow('took more than 500 ms');
  });

  test('shows a plugged stick as a device unit with udev properties, and takes it away (docs/runtime-facts.md, fact 25)', async () => {
    const plugged = await machine().plug(await stick('gpt'));
    const unit = await deviceUnit(plugged.devicePath);
    expect(unit).toMatch(/^dev-sd[a-z]1\.device$/);
    await active(unit);
    const json = await machine().output(`udevadm info --json=short --name=${plugged.devicePath}`);
    expect(JSON.parse(json)).toMatchObject({ ID_FS_TYPE: 'vfat', ID_FS_LABEL: 'STICKPIN', ID_BUS: 'usb' });
    expect(JSON.parse(json)).toHaveProperty('DISKSEQ');
    expect(await machine().output(`cat /sys/block/${unit.slice(4, 7)}/removable`)).toBe('1');
    await plugged.unplug();
    await inactive(unit);
  });

  test('reads a disc in a USB drive', async () => {
    await expectReadable(await stick('disc', { filesystem: 'iso9660', table: 'none' }), { as: 'disc' });
  });

  const expectReadable = async (readable: Stick, options: PlugOptions = {}): Promise<void> => {
    const plugged = await machine().plug(readable, options);
    await active(await deviceUnit(plugged.devicePath));
    const type = await machine().output(
      `udevadm info --query=property --property=ID_FS_TYPE --value ${plugged.devicePath}`,
    );
    expect(type).toBe(readable.filesystem);
    await machine().output(`mkdir -p /run/look && mount -o ro ${plugged.devicePath} /run/look`);
    const path = '/run/look/a/b/A Long Name.with-case.bin';
    const shared = await machine().share(join(folder, 'a/b/A Long Name.with-case.bin'));
    await machine().output(`cmp '${path}' '${shared}'`);
    await machine().output('umount /run/look');
    await plugged.unplug();
  };

  test('detaches a lazily unmounted stick that is pulled while a file on it is open (docs/runtime-facts.md, fact 26)', async () => {
    const image = await stick('pulled');
    const first = await machine().plug(image, { serial: 'SAME' });
    await active(await deviceUnit(first.devicePath));
    const unit = await mountLazily(first.devicePath, 'pulled');
    await machine().output("systemd-run --unit=reader --collect sh -c 'exec sleep infinity < /run/pulled/hello.txt'");
    const pid = await machine().output('systemctl show --property=MainPID --value reader');
    await machine().untilOutput(
      'the file to be open',
      `readlink /proc/${pid}/fd/0 | grep --fixed-strings /run/pulled/hello.txt`,
    );
    await first.unplug();
    await inactive(unit);
    expect(await machine().run('cat /run/pulled/hello.txt')).toMatchObject({ exitCode: 1 });
    const second = await machine().plug(image, { serial: 'SAME' });
    await active(await deviceUnit(second.devicePath));
    await mountLazily(second.devicePath, 'pulled');
    expect(await machine().output('cat /run/pulled/hello.txt')).toBe('hello');
    await machine().output('systemctl stop reader.service');
    await second.unplug();
    await inactive(unit);
  });

  test('pulls a stick in mid-read', async () => {
    const plugged = await machine().plug(await stick('slow'), { bytesPerSecond: 512 * 1024 });
    const unit = await deviceUnit(plugged.devicePath);
    await active(unit);
    const disk = `/dev/${unit.slice(4, 7)}`;
    await machine().output(
      `systemd-run --unit=slow-read -p RemainAfterExit=no dd if=${disk} of=/dev/null bs=64K iflag=direct`,
    );
    const pid = await machine().output('systemctl show --property=MainPID --value slow-read');
    await machine().untilOutput(
      'the first bytes',
      `awk '/^rchar/ && $2 > 100000 { found = 1 } END { exit !found }' /proc/${pid}/io`,
    );
    await plugged.unplug();
    await inactive('slow-read.service');
    expect(await machine().output('systemctl show --property=Result --value slow-read')).toBe('exit-code');
    await inactive(unit);
  });

  test('reads no faster than the throttle allows', async () => {
    const plugged = await machine().plug(await stick('throttled'), { bytesPerSecond: 1024 * 1024 });
    const unit = await deviceUnit(plugged.devicePath);
    await active(unit);
    const disk = `/dev/${unit.slice(4, 7)}`;
    const before = performance.now();
    await machine().output(`dd if=${disk} of=/dev/null bs=1M count=4 skip=2 iflag=direct`);
    expect(performance.now() - before).toBeGreaterThan(2500);
    await plugged.unplug();
  });

  test('answers reads of a bad sector with an error', async () => {
    const badSector = 20_000;
    const plugged = await machine().plug(await stick('bad'), { badSectors: [badSector] });
    const unit = await deviceUnit(plugged.devicePath);
    const disk = `/dev/${unit.slice(4, 7)}`;
    await machine().output(`dd if=${disk} of=/dev/null bs=512 count=1 skip=${badSector - 64} iflag=direct`);
    const { exitCode, stderr } = await machine().run(
      `dd if=${disk} of=/dev/null bs=512 count=1 skip=${badSector} iflag=direct`,
    );
    expect(stderr).toContain('Input/output error');
    expect(exitCode).toBe(1);
    await plugged.unplug();
  });

  test('loses in a power cut what was not written yet, and boots again', async () => {
    const bootId = await machine().output('cat /proc/sys/kernel/random/boot_id');
    await machine().output('echo kept > /root/kept && sync && echo lost > /root/lost');
    await machine().powerCut();
    expect(await machine().output('cat /proc/sys/kernel/random/boot_id')).not.toBe(bootId);
    expect(await machine().output('systemctl is-system-running')).toBe('running');
    expect(await machine().output('cat /root/kept')).toBe('kept');
    expect(await machine().run('grep -q lost /root/lost')).not.toMatchObject({ exitCode: 0 });
  });

  test('reboots in order, with the stick left in', async () => {
    await machine().output('echo written > /root/written');
    const plugged = await machine().plug(await stick('left-in'));
    await active(await deviceUnit(plugged.devicePath));
    await machine().reboot();
    expect(await machine().output('cat /root/written')).toBe('written');
    await active(await deviceUnit(plugged.devicePath));
    await plugged.unplug();
    // It need not measure its processor again.
    const { tscKhz } = inject('savedMachines').booted.image;
    expect(await machine().output('cat /proc/cmdline')).toContain(`tsc_early_khz=${tscKhz}`);
  });

  test('boots again when its kernel has measured the speed of the processor wrongly', async () => {
    const { tscKhz = 0 } = inject('savedMachines').booted.image;
    const other = await startMachine('trixie', Math.round(tscKhz / 4));
    try {
      const [, given] = /tsc_early_khz=(\d+)/.exec(await other.output('cat /proc/cmdline')) ?? [];
      // It was a quarter. A busy host measures it less exactly.
      expect(Math.abs(Number(given) / tscKhz - 1)).toBeLessThan(0.5);
    } finally {
      await other.stop();
    }
  });
});

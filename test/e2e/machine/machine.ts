import { existsSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { inspect } from 'node:util';
import type { Suite } from '../../support/rootfs/debian-root.ts';
import { execute } from '../../support/rootfs/execute.ts';
import { crioDoubleFiles } from './product/crio-double.ts';
import { guestNodeFile } from './product/guest-node.ts';
import { guestSetup, sharedFolder } from './product/guest-setup.ts';
import { type MachineImage, machineImage } from './qemu/disk.ts';
import { createGuestAgent, type GuestAgent, type GuestRunOptions, type Outcome } from './qemu/guest-agent.ts';
import { checkClock, kernelTscKhz, WrongClock } from './qemu/guest-clock.ts';
import { restoreState, saveState } from './qemu/migration.ts';
import { addressCommand, type CableEnd, forwardedAddress, forwardPort, plugCable } from './qemu/network.ts';
import { agentPort, type Qemu, type QemuOptions, startQemu } from './qemu/qemu.ts';
import type { QmpEvent } from './qemu/qmp.ts';
import { partitionOffsetBytes, type Stick } from './qemu/stick.ts';
import { createUsbPorts, type PluggedStick, type PlugOptions } from './qemu/usb.ts';
import { type UntilOptions, until } from './until.ts';

/**
 * A machine that was saved while it ran. Its files stay as they are: any number of machines can go
 * on from there.
 */
export interface SavedMachine {
  readonly image: MachineImage;
  /** The file with its memory and the state of its devices. */
  readonly memory: string;
}

/**
 * A whole machine: kernel, systemd, udev, D-Bus, containerd, USB ports, and no network but a cable
 * that is plugged in. Everything runs as root.
 */
export interface Machine {
  /** Runs a shell command in the guest, whatever its exit code. */
  run(command: string, options?: GuestRunOptions): Promise<Outcome>;
  /**
   * Runs a shell command that must succeed; returns its trimmed standard output. Throws with what
   * it wrote otherwise.
   */
  output(command: string, options?: GuestRunOptions): Promise<string>;
  /**
   * Tries until the probe returns something other than undefined or false. A probe that throws is
   * tried again.
   */
  until<T>(what: string, probe: () => Promise<T | undefined | false>, options?: UntilOptions): Promise<T>;
  /**
   * Tries the command until it exits with 0; returns its trimmed standard output. The error shows
   * what it wrote last.
   */
  untilOutput(what: string, command: string, options?: UntilOptions): Promise<string>;
  putFile(path: string, content: string | Buffer, mode?: number): Promise<void>;
  /**
   * The bytes of a file. It costs the guest next to nothing; rejects when there is no such file.
   */
  getFile(path: string): Promise<Buffer>;
  /**
   * Copies a file of the host into the folder that host and guest share and returns its path in the
   * guest. Fast for large files.
   */
  share(hostPath: string): Promise<string>;
  plug(stick: Stick, options?: PlugOptions): Promise<PluggedStick>;
  /**
   * Plugs in one end of a cable to another machine. The interface has `address`, as `10.9.0.1/24`,
   * until the next boot.
   */
  connect(end: CableEnd, address: string): Promise<void>;
  /**
   * Makes a TCP port of the machine one of the host's loopback until the next boot, and returns
   * that. In place of a cable.
   */
  forward(port: number): Promise<number>;
  /**
   * Writes the folder's contents to a stick that is not plugged in, with the guest's own filesystem
   * driver.
   */
  fillStick(stick: Stick, folder: string): Promise<void>;
  /** Shuts down in order, starts again, and waits until systemd has started everything. */
  reboot(): Promise<void>;
  /**
   * Loses everything that was not written to the disk yet, starts again, and waits until systemd
   * has started everything, or with `isWhole` false only until commands can be run.
   */
  powerCut(isWhole?: boolean): Promise<void>;
  /**
   * Saves the machine as it runs to files in `directory`, and ends it. No stick may be plugged in.
   */
  save(directory: string): Promise<SavedMachine>;
  /** What a virtual terminal shows, line by line. */
  terminal(number: number): Promise<string>;
  /** A picture of the screen, as PNG, into a file of the host. */
  screenshot(path: string): Promise<void>;
  /** What kernel and systemd wrote to the console since the start or restoration of the machine. */
  consoleLog(): Promise<string>;
  /** Ends the machine and removes its disk. */
  stop(): Promise<void>;
}

/** Where runs keep their disks; the process id follows, then something random. */
const runDirectories = '/var/tmp/stickpin-machine-';

const bootTimeoutMs = 600_000;

/**
 * A folder of this process for large files. When the process dies without removing it, the next one
 * does.
 */
export async function makeRunDirectory(): Promise<string> {
  await removeLeftovers();
  return mkdtemp(`${runDirectories}${process.pid}-`);
}

/**
 * Boots a machine and waits until systemd has started everything. Builds root folder and disk first
 * when the cache lacks them. A machine that does not boot is thrown away and said to have been;
 * then another one is started, once, from a disk that is built anew: the one in the cache may be
 * damaged. `tscKhz` as in {@link MachineImage}.
 */
export async function startMachine(suite: Suite, tscKhz?: number): Promise<Machine> {
  const measured = tscKhz === undefined ? {} : { tscKhz };
  const files = [...guestSetup, guestNodeFile, ...(await crioDoubleFiles())];
  try {
    return await bootMachine({ ...(await machineImage(suite, files)), ...measured });
  } catch (error) {
    process.stderr.write(`\nanother machine is started, since ${inspect(error)}\n`);
    return bootMachine({ ...(await machineImage(suite, files, { anew: true })), ...measured });
  }
}

/** Once more, with the right speed of its processor, when the kernel measured it wrongly. */
async function bootMachine(image: MachineImage): Promise<Machine> {
  try {
    return await beginMachine(image, 'boot', booted);
  } catch (error) {
    if (!(error instanceof Error && error.cause instanceof WrongClock)) throw error;
    process.stderr.write(`\nthe machine boots again, since ${error.cause.message}\n`);
    return beginMachine({ ...image, tscKhz: error.cause.tscKhz }, 'boot', booted);
  }
}

/** Continues a saved machine on a disk of its own, with its clock set right. */
export function restoreMachine({ image, memory }: SavedMachine): Promise<Machine> {
  return beginMachine(image, 'incoming', async ({ qmp }, agent) => {
    await restoreState(qmp, memory);
    await agent.synchronise(300_000);
    const { exitCode, stderr } = await agent.run(`date --set=@${Date.now() / 1000}`);
    if (exitCode !== 0) throw new Error(`the guest's clock can't be set: ${stderr}`);
  });
}

/** Starts QEMU and waits for `ready`; when that fails, nothing is left behind. */
async function beginMachine(
  image: MachineImage,
  start: QemuOptions['start'],
  ready: (qemu: Qemu, agent: GuestAgent) => Promise<void>,
): Promise<Machine> {
  const directory = await makeRunDirectory();
  const hostFolder = join(directory, 'shared');
  await mkdir(hostFolder);
  const qemu = await startQemu(image, { directory, sharedFolder: hostFolder, start });
  const stop = async (): Promise<void> => {
    await qemu.kill();
    await rm(directory, { recursive: true, force: true });
  };
  const agent = createGuestAgent(qemu.agentSocket);
  try {
    await ready(qemu, agent);
  } catch (error) {
    const log = await readFile(qemu.consoleLog, 'utf8').catch(() => '');
    await stop();
    throw new Error(`the machine did not ${start === 'boot' ? 'boot' : 'go on'}; its console:\n${log.slice(-4000)}`, {
      cause: error,
    });
  }
  const machine = machineOf(qemu, agent, hostFolder);
  const save: Machine['save'] = async (target) => {
    // QEMU saves no machine that has a shared folder mounted.
    await machine.output(`sync && { ! mountpoint -q ${sharedFolder} || umount ${sharedFolder}; }`);
    const tscKhz = image.tscKhz ?? (await kernelTscKhz(agent));
    const memory = join(target, 'memory');
    await saveState(qemu.qmp, memory);
    await qemu.kill();
    const disk = join(target, 'disk.qcow2');
    await rename(qemu.overlay, disk);
    await rm(directory, { recursive: true, force: true });
    return { image: { ...image, disk, diskFormat: 'qcow2', tscKhz }, memory };
  };
  return { ...machine, save, stop };
}

function machineOf(qemu: Qemu, agent: GuestAgent, shared: string): Omit<Machine, 'save' | 'stop'> {
  const usb = createUsbPorts(qemu.qmp);
  const output: Machine['output'] = async (command, options) => {
    const outcome = await agent.run(command, options);
    if (outcome.exitCode === 0) return outcome.stdout.trim();
    const wrote = `${outcome.stdout}${outcome.stderr}`.slice(-4000);
    throw new Error(`in the guest: \`${command}\` ended with ${outcome.exitCode}\n${wrote}`);
  };
  const share = async (hostPath: string): Promise<string> => {
    await copyFile(hostPath, join(shared, basename(hostPath)));
    // udev may be loading the transport's module just now. The folder is unknown until that has
    // ended, which modprobe waits for and mount does not.
    await output(`mountpoint -q ${sharedFolder} || { modprobe 9pnet_virtio && mount ${sharedFolder}; }`);
    return `${sharedFolder}/${basename(hostPath)}`;
  };
  return {
    run: agent.run,
    output,
    until,
    untilOutput: (what, command, options) => until(what, () => output(command), options),
    putFile: async (path, content, mode = 0o644) => {
      const quoted = quote(path);
      // Synchronised: a power cut would leave an empty file.
      const write = `cat > ${quoted} && chmod ${mode.toString(8)} ${quoted} && sync ${quoted}`;
      const command = `mkdir -p "$(dirname ${quoted})" && ${write}`;
      await output(command, { input: content });
    },
    getFile: agent.readFile,
    share,
    plug: usb.plug,
    connect: async (end, address) => {
      await plugCable(qemu.qmp, end);
      await output(addressCommand(address));
    },
    forward: async (guestPort) => {
      const port = await forwardPort(qemu.qmp, guestPort);
      await output(addressCommand(forwardedAddress));
      return port;
    },
    fillStick: async (stick, folder) => {
      const image = await share(stick.image);
      await execute(['tar', '--create', '--file', join(shared, 'fill.tar'), '--directory', folder, '.']);
      const offset = stick.partition === undefined ? 0 : partitionOffsetBytes;
      const fill = `mkdir -p /run/fill && mount -o loop,offset=${offset} ${image} /run/fill`;
      const unpack = `tar --extract --no-same-owner --file ${sharedFolder}/fill.tar --directory /run/fill`;
      await output(`${fill} && ${unpack} && umount /run/fill && sync`);
      await copyFile(join(shared, basename(stick.image)), stick.image);
    },
    reboot: () => bootAgain(qemu, agent, () => agent.start('systemctl reboot')),
    powerCut: (isWhole) => bootAgain(qemu, agent, () => qemu.qmp.execute('system_reset'), isWhole),
    terminal: async (number) => {
      const columns = 80;
      // Blanks at its begin and end are cells, too.
      const cells = (await output(`echo -n .; tr '\\0' ' ' < /dev/vcs${number}; echo .`)).slice(1, -1);
      const rows = Array.from({ length: Math.ceil(cells.length / columns) }, (_, row) =>
        cells.slice(row * columns, (row + 1) * columns).trimEnd(),
      );
      return rows.join('\n');
    },
    screenshot: async (path) => {
      await qemu.qmp.execute('screendump', { filename: path, format: 'png' });
    },
    consoleLog: () => readFile(qemu.consoleLog, 'utf8'),
  };
}

/**
 * Waits for the agent of a boot that has just begun, then for systemd if the boot must be whole.
 * Rejects with {@link WrongClock}.
 */
async function booted(qemu: Qemu, agent: GuestAgent, isWhole = true): Promise<void> {
  const isAgent = (data: QmpEvent['data']) => data.id === agentPort && data.open === true;
  await qemu.qmp.nextEvent('VSERPORT_CHANGE', isAgent, bootTimeoutMs);
  await agent.synchronise(300_000);
  if (!isWhole) return checkClock(agent);
  const [started] = await Promise.all([
    agent.run('systemctl is-system-running --wait', { timeoutMs: bootTimeoutMs }),
    checkClock(agent),
  ]);
  const state = started.stdout.trim();
  if (state !== 'running' && state !== 'degraded') throw new Error(`systemd is "${state}": ${started.stderr}`);
}

async function bootAgain(
  qemu: Qemu,
  agent: GuestAgent,
  reset: () => Promise<unknown>,
  isWhole?: boolean,
): Promise<void> {
  await Promise.all([qemu.qmp.nextEvent('RESET', () => true, bootTimeoutMs), reset()]);
  await booted(qemu, agent, isWhole);
}

/** Directories of test processes that were killed before they could tidy up. */
async function removeLeftovers(): Promise<void> {
  const names = (await readdir(dirname(runDirectories))).filter((name) => name.startsWith(basename(runDirectories)));
  for (const name of names) {
    const pid = name.slice(basename(runDirectories).length).split('-')[0];
    if (!existsSync(`/proc/${pid}`)) await rm(join(dirname(runDirectories), name), { recursive: true, force: true });
  }
}

function quote(path: string): string {
  return `'${path.replaceAll("'", `'\\''`)}'`;
}

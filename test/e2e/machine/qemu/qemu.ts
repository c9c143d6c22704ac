import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { execute } from '../../../support/rootfs/execute.ts';
import { sharedFolderTag } from '../product/guest-setup.ts';
import { processorsPerMachine } from '../side-by-side.ts';
import type { MachineImage } from './disk.ts';
import { emulator } from './emulator.ts';
import { type JsonSocket, listenForJson } from './json-socket.ts';
import { connectQmp, type Qmp } from './qmp.ts';

/** A QEMU that runs. */
export interface Qemu {
  readonly qmp: Qmp;
  /** The guest agent's end of the virtio-serial channel. */
  readonly agentSocket: JsonSocket;
  readonly consoleLog: string;
  /** What was written to the disk, as a qcow2 over the image's disk. */
  readonly overlay: string;
  /** Ends QEMU at once and waits until it is gone. */
  kill(): Promise<void>;
}

const memoryMiB = 2048;

/**
 * Has malloc ask for huge pages. The emulation finds what it has translated in a table of many
 * megabytes, all the time, and most of these looks would miss the host's TLB.
 */
const hugePages = { GLIBC_TUNABLES: 'glibc.malloc.hugetlb=1' };

/** Identifies the agent's port in QEMU's VSERPORT_CHANGE events. */
export const agentPort = 'agent';

/** Drivers of what QEMU's chipset brings along and nothing here uses. */
const unusedModules = [
  'drm',
  'psmouse',
  'pcspkr',
  'i2c_i801',
  'lpc_ich',
  'iTCO_wdt',
  'ahci',
  'serio_raw',
  'evdev',
  'button',
];

/**
 * `systemd.show_status` puts a failed unit on the console. `panic` has a kernel start again that
 * dies: while it boots, it patches its own code, and QEMU's emulation of several processors at a
 * time now and then runs an instruction that is half patched. `no_timer_check` leaves out a test of
 * the timer's interrupt, which fails on a busy host. `tsc=reliable` leaves out another, which then
 * has the kernel read a clock that is far slower to emulate. To fill pages with zeros is slow under
 * emulation as well, so that it is done once, and for no more than was asked for
 * (`init_on_alloc`, `transparent_hugepage`). The rest of the line only saves time.
 */
const kernelCommandLine = [
  'console=ttyS0 root=/dev/vda rw panic=1 no_timer_check',
  'tsc=reliable loglevel=3 quiet systemd.show_status=error',
  'init_on_alloc=0 transparent_hugepage=never',
  'cryptomgr.notests 8250.nr_uarts=1 rcupdate.rcu_expedited=1',
  `mitigations=off nowatchdog net.ifnames=0 modprobe.blacklist=${unusedModules.join(',')}`,
].join(' ');

/**
 * On a busy host the kernel may measure the speed of its processor so wrongly that its clock runs
 * several times too fast, and nothing waits long enough.
 */
function commandLineFor({ kernelArguments, tscKhz }: MachineImage): string {
  const line = `${kernelCommandLine} ${kernelArguments}`;
  return tscKhz === undefined ? line : `${line} tsc_early_khz=${tscKhz}`;
}

/** Where a QEMU keeps what is its own, and how it begins. */
export interface QemuOptions {
  /** A folder for the disk's overlay, sockets and the console log. */
  readonly directory: string;
  readonly sharedFolder: string;
  /** `incoming`: it waits for the state of a saved machine instead of booting. */
  readonly start: 'boot' | 'incoming';
}

/**
 * Starts QEMU on a fresh overlay of the image's disk, so that the image stays as it is. The machine
 * has no network.
 */
export async function startQemu(image: MachineImage, options: QemuOptions): Promise<Qemu> {
  const { directory } = options;
  const overlay = join(directory, 'disk.qcow2');
  await execute(['qemu-img', 'create', '-q', '-f', 'qcow2', '-F', image.diskFormat, '-b', image.disk, overlay]);
  const consoleLog = join(directory, 'console.log');
  const monitor = await listenForJson(join(directory, 'monitor.sock'));
  const agent = await listenForJson(join(directory, 'agent.sock'));
  const argv = [
    ...(await emulator()),
    ...processor(),
    ...devices(directory, overlay, consoleLog, options.sharedFolder),
    ...['-kernel', image.kernel, '-initrd', image.initrd, '-append', commandLineFor(image)],
    ...(options.start === 'incoming' ? ['-incoming', 'defer'] : []),
  ];
  // The machine must not outlive the test process, however that ends.
  const child = spawn('setpriv', ['--pdeathsig', 'KILL', '--', ...argv], {
    env: { ...process.env, ...hugePages },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const complaints: Buffer[] = [];
  child.stderr.on('data', (chunk: Buffer) => complaints.push(chunk));
  const ended = once(child, 'close');
  const died = ended.then(() => {
    throw new Error(`QEMU ended: ${Buffer.concat(complaints).toString().slice(-2000)}`);
  });
  died.catch(() => undefined); // matters only while the sockets are awaited
  const [monitorSocket, agentSocket] = await Promise.race([Promise.all([monitor.connected, agent.connected]), died]);
  return {
    qmp: await Promise.race([connectQmp(monitorSocket), died]),
    agentSocket,
    consoleLog,
    overlay,
    kill: async () => {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

/**
 * Emulated vector instructions cost more than they save: on a processor without AVX, Node hashes
 * twice as fast.
 */
function processor(): string[] {
  const accelerator = process.env.STICKPIN_TEST_ACCEL ?? 'tcg,thread=multi';
  const model = accelerator.startsWith('tcg') ? 'Nehalem' : 'max';
  return ['-accel', accelerator, '-cpu', model, '-smp', String(processorsPerMachine), '-m', String(memoryMiB)];
}

function devices(directory: string, overlay: string, consoleLog: string, sharedFolder: string): string[] {
  return [
    // A screen in text mode: what a person sees who stands before the machine.
    ...['-device', 'VGA,vgamem_mb=1'],
    ...['-machine', 'q35', '-nodefaults', '-no-user-config', '-display', 'none', '-nic', 'none', '-rtc', 'base=utc'],
    ...['-chardev', `file,id=console,path=${consoleLog},append=on`, '-serial', 'chardev:console'],
    ...[
      '-chardev',
      `socket,id=monitor,path=${join(directory, 'monitor.sock')}`,
      '-mon',
      'chardev=monitor,mode=control',
    ],
    // No power cut of the host is tested, so the host needn't flush; the order of the guest's
    // writes is kept.
    ...['-drive', `file=${overlay},format=qcow2,if=none,id=disk,cache=unsafe,discard=unmap`],
    ...['-device', 'virtio-blk-pci,drive=disk', '-device', 'virtio-serial-pci', '-device', 'virtio-rng-pci'],
    ...['-chardev', `socket,id=agent,path=${join(directory, 'agent.sock')}`],
    ...['-device', `virtserialport,id=${agentPort},chardev=agent,name=org.qemu.guest_agent.0`],
    ...['-virtfs', `local,path=${sharedFolder},mount_tag=${sharedFolderTag},security_model=none`],
    ...['-device', 'qemu-xhci,id=xhci,p2=8,p3=8'],
  ];
}

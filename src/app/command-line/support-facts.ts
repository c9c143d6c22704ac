import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { SupportSource } from '../../cli/context/command-adapters.ts';
import { loadSettings, NODE_SOURCES } from '../../config/load-settings.ts';
import { defaultSettings } from '../../domain/settings/settings.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { withDeadline } from '../../platform/async/abort.ts';
import { configuredRuntime, detectRuntime } from '../../runtime/detected-runtime.ts';
import { KINDS, type RuntimeCandidate } from '../../runtime/runtimes.ts';

const run = promisify(execFile);
const MAX_OUTPUT_BYTES = 32 * 1024 ** 2;
/** A program that hangs must not keep the rest from being collected. */
const FACT_MS = 30_000;

/** Units whose journal and state are collected; those that a node does not have have none. */
const UNITS = [
  'stickpin.service',
  'stickpin-fleet.service',
  'stickpin-sources.service',
  'stickpin-registry.socket',
  'stickpin-clear-mirrors.service',
  'crio.service',
  'containerd.service',
  'docker.service',
  'podman.service',
  'kubelet.service',
  'k3s.service',
  'k3s-agent.service',
  'rke2-server.service',
  'rke2-agent.service',
];

/** Each unit has its own lines, so that one that says much does not take them from the others. */
const JOURNALS: readonly SupportSource[] = UNITS.map((unit) => ({
  file: `journal-${unit.replace('.service', '')}.txt`,
  about: `the journal of ${unit}`,
  collect: (signal) =>
    output('journalctl', ['--no-pager', '--output=short-iso', '--lines=5000', '--unit', unit], signal),
}));

const FACTS: readonly SupportSource[] = [
  ...JOURNALS,
  {
    file: 'units.txt',
    about: 'the state of the units of stickpin, of the kubelet and of the container runtimes',
    collect: (signal) => output('systemctl', ['status', '--no-pager', '--lines=0', ...UNITS], signal),
  },
  {
    file: 'peers.txt',
    about: 'the other nodes that answered, and their addresses',
    collect: (signal) => read('/var/lib/stickpin-fleet/peers.json', signal),
  },
  { file: 'runtime.txt', about: 'the version of the container runtime and its images', collect: runtimeText },
  {
    file: 'disks.txt',
    about: 'disks and partitions (lsblk)',
    collect: (signal) =>
      output('lsblk', ['--output=NAME,KNAME,TYPE,SIZE,RO,RM,HOTPLUG,TRAN,FSTYPE,LABEL,UUID,MOUNTPOINTS'], signal),
  },
  {
    file: 'udev.txt',
    about: "udev's properties of block devices",
    collect: (signal) =>
      output('sh', ['-c', 'for d in /sys/class/block/*; do udevadm info --query=all --path="$d"; done'], signal),
  },
  { file: 'mounts.txt', about: 'what is mounted', collect: (signal) => read('/proc/self/mountinfo', signal) },
  {
    file: 'space.txt',
    about: 'free space and inodes',
    collect: (signal) => output('sh', ['-c', 'df -h; df -hi'], signal),
  },
  {
    file: 'machine.txt',
    about: 'the operating system and the kernel',
    collect: async (signal) => `${await read('/etc/os-release', signal)}\n${await read('/proc/version', signal)}`,
  },
];

/** What is collected of this machine, each with a time limit. */
export const supportSources: readonly SupportSource[] = FACTS.map((fact) => ({
  ...fact,
  collect: (signal) =>
    withDeadline(`The collection of ${fact.file}`, FACT_MS, signal, fact.collect).catch((error: unknown) => {
      signal.throwIfAborted();
      return `not collected: ${reasonOf(error)}\n`;
    }),
}));

/** The token in the paths of mirrors, which runtimes write into their journal. */
export async function supportSecrets(signal: AbortSignal): Promise<readonly string[]> {
  const { paths } = await loadSettings(NODE_SOURCES, signal).catch(() => defaultSettings);
  const token = await readFile(join(paths.state_dir, 'registry-token'), 'utf8').catch(() => '');
  return token.trim() === '' ? [] : [token.trim()];
}

/** What a program prints, also when it fails: systemctl does so for units that do not run. */
async function output(program: string, args: readonly string[], signal: AbortSignal): Promise<string> {
  const options = { signal, maxBuffer: MAX_OUTPUT_BYTES, env: { ...process.env, LC_ALL: 'C.UTF-8' } };
  const { stdout, stderr } = await run(program, [...args], options).catch((error: unknown) => {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    if (stdout === '' && stderr === '') throw error;
    return { stdout, stderr };
  });
  return stderr === '' ? stdout : `${stdout}\n${stderr}`;
}

function read(path: string, signal: AbortSignal): Promise<string> {
  return readFile(path, { encoding: 'utf8', signal });
}

async function runtimeText(signal: AbortSignal): Promise<string> {
  const { runtime } = await loadSettings(NODE_SOURCES, signal).catch(() => defaultSettings);
  const found = configuredRuntime(runtime, await detectRuntime(signal));
  return found === undefined ? 'no container runtime was found\n' : imagesText(found, signal);
}

/** Its version, and its images as it lists them. */
export async function imagesText(
  { kind, socketPath }: Pick<RuntimeCandidate, 'kind' | 'socketPath'>,
  signal: AbortSignal,
): Promise<string> {
  const client = KINDS[kind].probe(socketPath);
  try {
    const [version, images] = [await client.version(signal), await client.listImages(signal)];
    return `${version} on ${socketPath}\n${JSON.stringify(images, null, 1)}\n`;
  } finally {
    client.close();
  }
}

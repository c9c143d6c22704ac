import { join } from 'node:path';
import { buildOnce, cachedPath } from './build-cache.ts';
import { debianMirror } from './debian-mirror.ts';
import { execute } from './execute.ts';

/** As Debian names it. */
const architecture = process.arch === 'arm64' ? 'arm64' : 'amd64';

/**
 * What the root folder is made of; its hash names the folder in the cache. Raise `version` when
 * something else than the list changes how it is built.
 */
const recipe = {
  version: 2,
  suite: 'trixie',
  architecture,
  packages: [
    'systemd',
    'systemd-sysv',
    'udev',
    'dbus',
    'procps',
    `linux-image-${architecture}`,
    'busybox-static',
    'e2fsprogs',
    'qemu-guest-agent',
    'containerd',
    'crun',
    'skopeo',
  ],
};

/**
 * The path of a Debian trixie root folder, built with mmdebstrap when the cache lacks it (about 35
 * s). It is the guest's disk and, through `trixieArgv()`, where tests on the host take containerd
 * 1.7 and skopeo 1.18 from. Needs root. Never write to it.
 */
export async function trixieRoot(): Promise<string> {
  return join(await buildOnce('trixie', recipe, buildRoot), 'root');
}

/** A short name for the contents of the root folder, for the recipes of what is made from it. */
export const trixieRecipe: unknown = recipe;

/**
 * The command line that runs a program of trixie on this host: in a mount namespace of its own, in
 * which trixie's `/usr` and `/etc` lie read-only over the host's. Every other path is the host's,
 * so files and sockets have one name inside and outside; what the program mounts vanishes with it.
 * The process that is started becomes the program (same pid), so signals reach it.
 *
 * Needs root and a host with a merged `/usr`; `trixieRoot()` must have resolved before the command
 * line is run.
 */
export function trixieArgv(...argv: readonly string[]): string[] {
  const root = join(cachedPath('trixie', recipe), 'root');
  const script =
    'mount --bind -o ro "$0/etc" /etc && mount --bind -o ro "$0/usr" /usr && PATH=/usr/sbin:/usr/bin && exec "$@"';
  return ['unshare', '--mount', '--propagation', 'private', '--', '/bin/sh', '-c', script, root, ...argv];
}

/**
 * The command line of trixie's skopeo, to which arguments are appended. See `trixieArgv()` for what
 * it needs.
 */
export function skopeoArgv(): string[] {
  return trixieArgv('skopeo');
}

async function buildRoot(directory: string): Promise<void> {
  const { suite, packages } = recipe;
  const source = `deb ${await debianMirror()} ${suite} main\n`;
  const argv = [
    'mmdebstrap',
    '--quiet',
    '--variant=minbase',
    `--architectures=${architecture}`,
    `--include=${packages.join(',')}`,
    '--dpkgopt=path-exclude=/usr/share/doc/*',
    '--dpkgopt=path-exclude=/usr/share/man/*',
    '--dpkgopt=path-exclude=/usr/share/locale/*',
    '--aptopt=Acquire::Retries "5"',
    suite,
    join(directory, 'root'),
    '-',
  ];
  // The guest boots with an initrd of its own making, so the kernel's package needn't make one.
  await execute(argv, { input: source, env: { ...process.env, INITRD: 'No' } });
}

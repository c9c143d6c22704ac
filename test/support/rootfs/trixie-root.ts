import { cachedRoot, debianRoot } from './debian-root.ts';

/**
 * The root folder of Debian trixie, of which guests are made and, through `trixieArgv()`, where
 * tests on the host take containerd 1.7 and skopeo 1.18 from; see `debianRoot()`.
 */
export function trixieRoot(): Promise<string> {
  return debianRoot('trixie');
}

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
  return argvIn(cachedRoot('trixie'), ...argv);
}

/** As {@link trixieArgv}, with another root folder. */
export function argvIn(root: string, ...argv: readonly string[]): string[] {
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

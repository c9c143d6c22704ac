import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execute } from './execute.ts';
import { trixieRoot } from './trixie-root.ts';

/**
 * A Debian trixie of a test's own, on which nothing runs: what is changed in it lasts as long as
 * it.
 */
export interface ScratchRoot {
  /** A folder of the host that is `/host` in the root. */
  readonly shared: string;
  /** Runs a shell command in it, in `/host`, that must succeed. Returns its standard output. */
  run(command: string): Promise<string>;
  /** Runs a command on the host, in `shared`; `$ROOT` is where the root is. */
  runOutside(command: string): Promise<string>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Needs root, and what {@link trixieRoot} needs. */
export async function makeScratchRoot(): Promise<ScratchRoot> {
  const lower = await trixieRoot();
  const directory = await mkdtemp(join(tmpdir(), 'stickpin-root-'));
  const path = (name: string) => join(directory, name);
  const shared = path('shared');
  for (const folder of [shared, path('upper/host'), path('work'), path('merged')])
    await mkdir(folder, { recursive: true });
  // The mounts vanish with the command.
  const mounts = [
    `mount -t overlay overlay -o lowerdir=${lower},upperdir=${path('upper')},workdir=${path('work')} ${path('merged')}`,
    `mount --bind ${shared} ${path('merged/host')}`,
    `mount --rbind /dev ${path('merged/dev')}`,
    `mount -t proc proc ${path('merged/proc')}`,
  ].join(' && ');
  const ownEnvironment = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin TMPDIR=/tmp';
  const inside = (script: string, command: string) =>
    execute(
      ['unshare', '--mount', '--propagation', 'private', '/bin/sh', '-ec', `${mounts}\n${script}`, '-', command],
      {
        env: { ...process.env, ROOT: path('merged'), DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C.UTF-8' },
      },
    );
  return {
    shared,
    run: (command) => inside(`cd /; ${ownEnvironment}; exec chroot "$ROOT" /bin/sh -ec "cd /host && $1"`, command),
    runOutside: (command) => inside(`cd ${shared}; exec /bin/sh -ec "$1"`, command),
    [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }),
  };
}

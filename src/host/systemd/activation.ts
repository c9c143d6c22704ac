/**
 * A socket that systemd opened for us (sd_listen_fds(3)). `name` is `FileDescriptorName=`, by
 * default the socket unit's name.
 */
export interface ActivatedSocket {
  readonly fd: number;
  readonly name: string;
}

const FIRST_FD = 3;

/**
 * The sockets that systemd passed to this process; none without socket activation. `LISTEN_PID`,
 * `LISTEN_FDS` and `LISTEN_FDNAMES` are removed from `env`, so that no child process uses them. A
 * Node server listens on one with `server.listen({ fd })`.
 */
export function takeActivatedSockets(env: NodeJS.ProcessEnv, pid: number = process.pid): readonly ActivatedSocket[] {
  const { LISTEN_PID: listenPid, LISTEN_FDS: listenFds, LISTEN_FDNAMES: listenNames } = env;
  for (const name of ['LISTEN_PID', 'LISTEN_FDS', 'LISTEN_FDNAMES']) delete env[name];
  const count = Number(listenFds ?? 0);
  if (Number(listenPid) !== pid || !Number.isInteger(count) || count < 1) return [];
  const names = listenNames?.split(':') ?? [];
  return Array.from({ length: count }, (_none, index) => ({ fd: FIRST_FD + index, name: names[index] ?? 'unknown' }));
}

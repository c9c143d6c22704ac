import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';

/**
 * A `dbus-daemon` of the test's own, on a socket in a directory of its own. Anyone may own any
 * name.
 */
export interface PrivateBus {
  readonly address: string;
  /** Stops the daemon; every connection to it ends. Idempotent. */
  stop(): Promise<void>;
  /** Starts it again at the same address. */
  restart(): Promise<void>;
  /** Stops it and removes its directory. */
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Starts a private bus. Needs the program `dbus-daemon`; see `have('dbus-daemon')`.
 *
 * @param policies files that allow something on a bus with the rules of a system bus: nobody may
 *   own a name or call anything else. Every user may connect. Default: anybody may do anything.
 */
export async function startPrivateBus(policies?: readonly string[]): Promise<PrivateBus> {
  const directory = await mkdtemp(join(tmpdir(), 'stickpin-bus-'));
  if (policies !== undefined) await chmod(directory, 0o755);
  const socket = join(directory, 'socket');
  const config = join(directory, 'bus.conf');
  await writeFile(config, configuration(socket, policies === undefined ? FREE : systemRules(policies)));
  let stopDaemon = await startDaemon(config);
  const stop = async (): Promise<void> => {
    await stopDaemon();
    await rm(socket, { force: true });
  };
  return {
    address: `unix:path=${socket}`,
    stop,
    restart: async () => {
      await stop();
      stopDaemon = await startDaemon(config);
    },
    [Symbol.asyncDispose]: async () => {
      await stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

async function startDaemon(config: string): Promise<() => Promise<void>> {
  const child = spawn('dbus-daemon', [`--config-file=${config}`, '--nofork', '--nosyslog', '--print-address=1'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  const lines = createInterface(child.stdout);
  await Promise.race([once(lines, 'line'), exited.then(([code]) => Promise.reject(new Error(`dbus-daemon: ${code}`)))]);
  return async () => {
    child.kill();
    await exited;
    lines.close();
  };
}

/** What the rules of every bus say, those of the system bus too: messages but calls may pass. */
const COMMON = `<allow user="*"/>
    <allow send_type="signal"/>
    <allow send_requested_reply="true" send_type="method_return"/>
    <allow send_requested_reply="true" send_type="error"/>
    <allow receive_type="method_call"/>
    <allow receive_type="method_return"/>
    <allow receive_type="error"/>
    <allow receive_type="signal"/>`;

const FREE = `<policy context="default">
    ${COMMON}
    <allow own="*"/>
    <allow send_type="method_call"/>
  </policy>`;

/** The rules of the system bus, as dbus-daemon ships them, and those of `policies`. */
function systemRules(policies: readonly string[]): string {
  return `<policy context="default">
    ${COMMON}
    <deny own="*"/>
    <deny send_type="method_call"/>
    <allow send_destination="org.freedesktop.DBus" send_interface="org.freedesktop.DBus"/>
  </policy>
  ${policies.map((file) => `<include>${resolve(file)}</include>`).join('\n  ')}`;
}

function configuration(socket: string, rules: string): string {
  return `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <listen>unix:path=${socket}</listen>
  <auth>EXTERNAL</auth>
  ${rules}
</busconfig>
`;
}

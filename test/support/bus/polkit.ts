import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { promisify } from 'node:util';
import { expect } from 'vitest';
import { eventually } from '../eventually.ts';

const run = promisify(execFile);

/** The rules of a bus on which polkitd runs, beside those of the services that ask it. */
export const POLKIT_BUS_POLICY = '/usr/share/dbus-1/system.d/org.freedesktop.PolicyKit1.conf';

/**
 * In a mount namespace of its own: polkitd reads fixed folders, which must hold nothing of this
 * machine, and nothing of the test may stay in them.
 */
const SCRIPT = `
  mount -t tmpfs none /usr/share/polkit-1/actions
  mount -t tmpfs none /usr/share/polkit-1/rules.d
  mount -t tmpfs none /etc/polkit-1/rules.d
  cat > /usr/share/polkit-1/actions/test.policy
  printf '%s' "$RULES" > /etc/polkit-1/rules.d/10-test.rules
  chmod 0755 /etc/polkit-1/rules.d
  exec /usr/lib/polkit-1/polkitd --no-debug
`;

/**
 * The real polkitd on a bus, with the given actions and rules only. Needs `have('root',
 * 'polkit')`.
 *
 * @param actions content of a .policy file
 * @param rules JavaScript of a rules file (polkit(8))
 */
export async function startPolkit(address: string, actions: string, rules: string): Promise<AsyncDisposable> {
  const child = spawn('unshare', ['--mount', 'sh', '-ec', SCRIPT], {
    env: { ...process.env, DBUS_SYSTEM_BUS_ADDRESS: address, RULES: rules },
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  const exited = once(child, 'exit');
  child.stdin.end(actions);
  const isOwned = () => callAs(0, address, ['org.freedesktop.PolicyKit1', '/', 'org.freedesktop.DBus.Peer', 'Ping']);
  await eventually(async () => expect((await isOwned()).exitCode).toBe(0));
  return {
    [Symbol.asyncDispose]: async () => {
      child.kill();
      await exited;
    },
  };
}

/** Calls a method with busctl as another user. `args` as behind `busctl call`. */
export async function callAs(
  uid: number,
  address: string,
  args: readonly string[],
): Promise<{ readonly exitCode: number; readonly stdout: string; readonly stderr: string }> {
  const identity = uid === 0 ? [] : [`--reuid=${uid}`, `--regid=${uid}`, '--clear-groups'];
  const command = ['setpriv', ...identity, 'busctl', `--address=${address}`, 'call', ...args];
  const [program = '', ...rest] = command;
  try {
    return { exitCode: 0, ...(await run(program, rest)) };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { exitCode: code, stdout, stderr };
  }
}

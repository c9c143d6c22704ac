import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { type MessageKind, messageIds } from '../../src/platform/message-ids.ts';
import { createDatagramReceiver } from '../support/bus/datagram-receiver.ts';
import { endProcess } from '../support/end-process.ts';
import { eventually } from '../support/eventually.ts';

/** The built daemon as a process of its own, told of by sd_notify. */
export interface DaemonProcess {
  readonly child: ChildProcess;
  /** From spawn to `READY=1`, in milliseconds. */
  readonly readyMs: number;
  /** The last `STATUS=`, which is sent at most once a second. */
  status(): string;
  /** Whether the log has a message of this kind. It has each event at once. */
  hasReported(kind: MessageKind): boolean;
  stop(): Promise<void>;
}

/**
 * The flags of Node in a service's own ExecStart, so that what is measured is what runs on a node.
 */
export function serviceFlags(service: 'stickpin' | 'stickpin-fleet' = 'stickpin'): string[] {
  const unit = readFileSync(`systemd/${service}.service`, 'utf8');
  return /^ExecStart=\S+ (.*) \S+main\.js$/m.exec(unit)?.[1]?.split(' ') ?? [];
}

/** Starts `dist/main.js` with one more fragment of settings. */
export async function startDaemonProcess(
  config: string,
  env: Readonly<Record<string, string>>,
): Promise<DaemonProcess> {
  const receiver = createDatagramReceiver();
  const startedAt = performance.now();
  const child = spawn(process.execPath, [...serviceFlags(), 'dist/main.js', '--config', config], {
    env: { ...process.env, MALLOC_ARENA_MAX: '1', UV_THREADPOOL_SIZE: '8', ...env, NOTIFY_SOCKET: receiver.path },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let log = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    log += text;
  });
  const texts = () => receiver.received.map((datagram) => datagram.toString());
  await eventually(() => {
    if (!texts().some((text) => text.includes('READY=1'))) throw new Error('the daemon is not ready');
  }, 20_000);
  const readyMs = performance.now() - startedAt;
  return {
    child,
    readyMs,
    status: () =>
      texts()
        .findLast((text) => text.startsWith('STATUS='))
        ?.slice('STATUS='.length) ?? '',
    hasReported: (kind) => log.includes(messageIds[kind]),
    stop: async () => {
      await endProcess(child, 'SIGTERM');
      receiver[Symbol.dispose]();
    },
  };
}

import { setTimeout as delay } from 'node:timers/promises';
import type { JsonSocket } from './json-socket.ts';

/** How a command runs in the guest. */
export interface GuestRunOptions {
  /**
   * Milliseconds until it is killed and the call rejects; default ten minutes. Emulation is slow:
   * be generous.
   */
  readonly timeoutMs?: number;
  /** Its standard input. */
  readonly input?: string | Buffer;
}

/** What a command in the guest left behind; -1 when it was killed. */
export interface Outcome {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * The QEMU guest agent (docs/interop/qemu-ga-ref): a program in the guest that obeys over a
 * virtio-serial port.
 */
export interface GuestAgent {
  /**
   * Agrees with the agent of the present boot on where messages begin. Call it when the guest has
   * opened the port.
   */
  synchronise(timeoutMs: number): Promise<void>;
  /**
   * Runs `/bin/sh -c command` as root. Output is binary-safe: `stdoutBytes` is what was written,
   * `stdout` the same as text.
   */
  run(command: string, options?: GuestRunOptions): Promise<Outcome & { readonly stdoutBytes: Buffer }>;
  /**
   * The bytes of a file. The agent reads it itself: no process is started, which takes an emulated
   * processor a tenth of a second. Rejects when it can't be opened.
   */
  readFile(path: string): Promise<Buffer>;
  /**
   * Starts `/bin/sh -c command` and doesn't ask how it ends: for commands that end the agent too.
   */
  start(command: string): Promise<void>;
}

interface Answer {
  readonly return?: unknown;
  readonly error?: { readonly desc: string };
}

interface FilePart {
  readonly 'buf-b64': string;
  readonly eof: boolean;
}

interface ExecStatus {
  readonly exited: boolean;
  readonly exitcode?: number;
  readonly signal?: number;
  readonly 'out-data'?: string;
  readonly 'err-data'?: string;
  readonly 'out-truncated'?: boolean;
}

/**
 * The client of the agent at the other end of `socket`. The agent answers in order, so calls are
 * queued one behind the other.
 */
export function createGuestAgent(socket: JsonSocket): GuestAgent {
  let receive: (answer: Answer) => void = () => undefined;
  let queue: Promise<unknown> = Promise.resolve();
  socket.onValue((value) => receive(value as Answer));

  const ask = async (request: object, timeoutMs: number, accepts: (answer: Answer) => boolean, prefix?: Buffer) => {
    const answer = new Promise<Answer>((resolve, reject) => {
      const timer = setTimeout(() => {
        reject(
          new Error(`the guest agent did not answer ${JSON.stringify(request).slice(0, 200)} within ${timeoutMs} ms`),
        );
      }, timeoutMs);
      receive = (value) => {
        if (!accepts(value)) return;
        clearTimeout(timer);
        resolve(value);
      };
    });
    socket.send(request, prefix);
    return answer;
  };

  const call = (command: string, args: object): Promise<unknown> => {
    const turn = queue.then(async () => {
      const answer = await ask({ execute: command, arguments: args }, 300_000, () => true);
      if (answer.error !== undefined) throw new Error(`guest agent, ${command}: ${answer.error.desc}`);
      return answer.return;
    });
    queue = turn.catch(() => undefined);
    return turn;
  };

  return {
    synchronise: async (timeoutMs) => {
      const id = Math.floor(Math.random() * 2 ** 31);
      const request = { execute: 'guest-sync-delimited', arguments: { id } };
      queue = Promise.resolve(); // what was asked of an earlier boot is never answered
      await ask(request, timeoutMs, (answer) => answer.return === id, Buffer.from([0xff]));
    },
    readFile: (path) => readFile(call, path),
    start: async (command) => {
      await call('guest-exec', { path: '/bin/sh', arg: ['-c', command] });
    },
    run: async (command, options = {}) => {
      const timeoutMs = options.timeoutMs ?? 600_000;
      const seconds = String(timeoutMs / 1000);
      const started = await call('guest-exec', {
        path: '/usr/bin/timeout',
        arg: ['--signal=KILL', seconds, '/bin/sh', '-c', command],
        'capture-output': true,
        ...(options.input !== undefined && { 'input-data': Buffer.from(options.input).toString('base64') }),
      });
      const { pid } = started as { pid: number };
      return outcome(command, timeoutMs, await exitOf(pid));
    },
  };

  async function exitOf(pid: number): Promise<ExecStatus> {
    for (let pauseMs = 20; ; pauseMs = Math.min(pauseMs * 1.5, 250)) {
      const status = (await call('guest-exec-status', { pid })) as ExecStatus;
      if (status.exited) return status;
      await delay(pauseMs);
    }
  }
}

const filePartBytes = 4 * 1024 * 1024;

async function readFile(call: (command: string, args: object) => Promise<unknown>, path: string): Promise<Buffer> {
  const handle = await call('guest-file-open', { path, mode: 'r' });
  const parts: Buffer[] = [];
  try {
    for (;;) {
      const part = (await call('guest-file-read', { handle, count: filePartBytes })) as FilePart;
      parts.push(Buffer.from(part['buf-b64'], 'base64'));
      if (part.eof) return Buffer.concat(parts);
    }
  } finally {
    await call('guest-file-close', { handle });
  }
}

/** timeout(1) was told to kill with SIGKILL, and then ends by that signal itself. */
const killedSignal = 9;

function outcome(command: string, timeoutMs: number, status: ExecStatus): Outcome & { stdoutBytes: Buffer } {
  const stdoutBytes = Buffer.from(status['out-data'] ?? '', 'base64');
  const stdout = stdoutBytes.toString();
  const stderr = Buffer.from(status['err-data'] ?? '', 'base64').toString();
  if (status.signal === killedSignal) {
    throw new Error(
      `in the guest: \`${command}\` took more than ${timeoutMs} ms\n${stdout.slice(-2000)}${stderr.slice(-2000)}`,
    );
  }
  if (status['out-truncated'] === true) throw new Error(`in the guest: \`${command}\` wrote more than 16 MiB`);
  return { exitCode: status.exitcode ?? -1, stdout, stderr, stdoutBytes };
}

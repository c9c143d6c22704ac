import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { AppError, reasonOf, systemCodeOf } from '../platform/app-error.ts';

/** linux/vt.h, the same on all architectures. */
const VT_GETSTATE = 0x5603;
const VT_ACTIVATE = 0x5606;
/** `struct vt_stat` has `v_active`, `v_signal` and `v_state`, 16 bits each. */
const STATE_BYTES = 6;

/**
 * The terminal does not become the controlling terminal of the process, and a write does not wait:
 * Ctrl+S and Scroll Lock stop the output until somebody continues it.
 */
const FLAGS = constants.O_WRONLY | constants.O_NOCTTY | constants.O_NONBLOCK;

/** A virtual terminal (console_ioctl(2)) that only this process uses. */
export interface Terminal {
  /** The number of the terminal that the screen shows. */
  active(): number;
  /** Shows a terminal on the screen. */
  activate(number: number): void;
  /** Returns false when the output is stopped: the text, or its end, is not written. */
  write(text: string): boolean;
  close(): void;
}

type Ioctl = (fd: number, request: number, argument: Buffer | number) => number;

/** It is loaded only when needed: no other process uses it. */
async function loadIoctl(): Promise<Ioctl> {
  const { default: koffi } = await import('koffi');
  const libc = koffi.load(null);
  const withBuffer = libc.func('int ioctl(int, unsigned long, void *)');
  const withNumber = libc.func('int ioctl(int, unsigned long, uintptr_t)');
  return (fd, request, argument) => (Buffer.isBuffer(argument) ? withBuffer : withNumber)(fd, request, argument);
}

/**
 * @param number 1 to 15: the kernel says of these whether somebody has one open
 * @throws AppError `host/vt` (`retry`) when the machine has none, or somebody uses it: a getty, a
 *   session, a graphical screen
 */
export async function openTerminal(number: number): Promise<Terminal> {
  const ioctl = await loadIoctl();
  const control = openDevice('/dev/tty0', 'This machine has no virtual terminals');
  const state = () => {
    const answer = Buffer.alloc(STATE_BYTES);
    if (ioctl(control, VT_GETSTATE, answer) !== 0) throw refused('/dev/tty0 is no virtual terminal');
    const [active, users] = [answer.readUInt16LE(0), answer.readUInt16LE(4)];
    return { active, isUsed: (users & (1 << number)) !== 0 };
  };
  const path = `/dev/tty${number}`;
  try {
    if (state().isUsed) {
      throw refused(
        `${path} is in use, by a login, a session or a screen: set console.vt to one that 'fuser /dev/tty*' does not show`,
      );
    }
    const device = openDevice(path, `${path} can't be opened`);
    return {
      active: () => state().active,
      activate: (other) => {
        ioctl(control, VT_ACTIVATE, other);
      },
      write: (text) => writeWithoutWait(device, text),
      close: () => {
        closeSync(device);
        closeSync(control);
      },
    };
  } catch (error) {
    closeSync(control);
    throw error;
  }
}

/** Returns false when not everything was written. @param fd opened with `O_NONBLOCK` */
export function writeWithoutWait(fd: number, text: string): boolean {
  try {
    return writeSync(fd, text) === Buffer.byteLength(text);
  } catch (error) {
    if (systemCodeOf(error) === 'EAGAIN') return false;
    throw error;
  }
}

function openDevice(path: string, what: string): number {
  try {
    return openSync(path, FLAGS);
  } catch (cause) {
    throw refused(`${what}: ${reasonOf(cause)}`, cause);
  }
}

function refused(message: string, cause?: unknown): AppError {
  return new AppError({ code: 'host/vt', message, disposition: 'retry', cause });
}

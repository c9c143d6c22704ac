import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { AppError, reasonOf } from '../../platform/app-error.ts';

/** udev's properties of a device: `DEVNAME`, `DISKSEQ`, `ID_FS_TYPE`, `STICKPIN_MEDIUM`, … */
export type UdevProperties = Readonly<Record<string, string>>;

/** Reads the properties of the device at a path below /sys. Undefined when there is no device. */
export type UdevQuery = (sysfsPath: string, signal: AbortSignal) => Promise<UdevProperties | undefined>;

const run = promisify(execFile);

/**
 * Runs `udevadm info --query=property --path=…`. It uses the path because the sandbox hides device
 * nodes.
 *
 * @throws AppError `media/udev` (`retry`) when udevadm can't be run.
 */
export const queryUdev: UdevQuery = async (sysfsPath, signal) => {
  try {
    const args = ['info', '--query=property', `--path=${sysfsPath}`];
    const { stdout } = await run('udevadm', args, { signal, maxBuffer: 1024 * 1024 });
    return parseUdevProperties(stdout);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof Error && 'code' in error && typeof error.code === 'number') return undefined;
    throw new AppError({
      code: 'media/udev',
      message: `udevadm can't be run to ask for ${sysfsPath}: ${reasonOf(error)}. Install the package udev`,
      disposition: 'retry',
      cause: error,
    });
  }
};

/**
 * Parses the `KEY=VALUE` lines of `udevadm info --query=property`. A value ends at the end of its
 * line.
 */
export function parseUdevProperties(text: string): UdevProperties {
  const pairs = text.split('\n').flatMap((line) => {
    const equals = line.indexOf('=');
    return equals > 0 ? [[line.slice(0, equals), line.slice(equals + 1)] as const] : [];
  });
  return Object.fromEntries(pairs);
}

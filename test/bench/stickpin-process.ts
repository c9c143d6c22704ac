import { spawn } from 'node:child_process';
import { once } from 'node:events';

/**
 * How a process ended: wall time from spawn to exit in milliseconds, and its greatest resident
 * memory in MiB.
 */
export interface Usage {
  readonly wallMs: number;
  readonly peakMiB: number;
}

/**
 * Tells file descriptor 3 at the end what /proc has (`VmHWM`, in KiB). `ru_maxrss` of getrusage(2)
 * begins with the memory of the process that started it.
 */
const TELL_PEAK = `data:text/javascript,${encodeURIComponent(
  "import { readFileSync, writeSync } from 'node:fs'; process.on('exit', () => writeSync(3, /VmHWM:\\s+(\\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1]));",
)}`;

/** Runs `stickpin bundle …` of `dist/` as a process of its own. */
export function runStickpin(...args: readonly string[]): Promise<Usage> {
  return runProgram({}, 'bundle', ...args);
}

/** Runs any command of `dist/` as a process of its own. */
export async function runProgram(env: Readonly<Record<string, string>>, ...args: readonly string[]): Promise<Usage> {
  const startedAt = performance.now();
  const argv = ['--import', TELL_PEAK, 'dist/cli/main.js', ...args];
  const child = spawn(process.execPath, argv, {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'inherit', 'pipe'],
  });
  let told = '';
  child.stdio[3]?.on('data', (chunk: Buffer) => {
    told += chunk.toString();
  });
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`stickpin ${args.join(' ')} ended with ${code}`);
  return { wallMs: performance.now() - startedAt, peakMiB: Number(told) / 1024 };
}

/** Runs another program. Its memory is not measured (NaN). */
export async function runOther([file = '', ...args]: readonly string[]): Promise<Usage> {
  const startedAt = performance.now();
  const child = spawn(file, args, { stdio: ['ignore', 'ignore', 'inherit'] });
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`${file} ${args.join(' ')} ended with ${code}`);
  return { wallMs: performance.now() - startedAt, peakMiB: Number.NaN };
}

/** The quickest of some runs: what else the machine does only makes a run slower. */
export function quickest(runs: readonly Usage[]): Usage {
  return runs.reduce((best, run) => (run.wallMs < best.wallMs ? run : best));
}

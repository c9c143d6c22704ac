import { type ChildProcess, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { program } from '../requirements.ts';

export const strace = program('strace', 'apt-get install strace');

/** Calls that change a folder, or bring it to the disk. */
const CHANGES = [
  ...['open', 'creat', 'openat', 'write', 'pwrite64', 'writev', 'pwritev', 'pwritev2', 'ftruncate', 'truncate'],
  ...['fallocate', 'rename', 'renameat', 'renameat2', 'unlink', 'unlinkat', 'rmdir', 'link', 'linkat', 'mkdir'],
  ...['mkdirat', 'symlink', 'symlinkat', 'copy_file_range', 'sendfile', 'fsync', 'fdatasync', 'sync', 'syncfs'],
  ...['fchmod', 'chmod', 'bind'],
] as const;

/** One call that a process made, in the order of their ends. */
export interface SystemCall {
  readonly thread: string;
  readonly name: string;
  /** Paths by name and of file descriptors. `undefined` beside an anonymous or removed file. */
  readonly paths: readonly (string | undefined)[];
  /** What was written, or where a string is no path. */
  readonly bytes: Buffer;
  /** All arguments as strace shows them, without what is in quotes. */
  readonly args: readonly string[];
  /** Below 0: it failed. */
  readonly result: number;
  /** As `EIO`. */
  readonly error: string | undefined;
  readonly isInjected: boolean;
}

/** What strace(1) does to calls. */
export interface Injection {
  /** As `-e inject=` takes it. */
  readonly inject?: string;
  /** Only calls on these are injected and recorded; default: all. */
  readonly paths?: readonly string[];
}

/**
 * A command line for Node.js under strace, which records all calls with what they write. strace
 * counts the calls of each thread on its own: set {@link ONE_THREAD}.
 */
export function traced(trace: string, { inject, paths = [] }: Injection = {}): readonly string[] {
  return [
    ...['strace', '-qq', '-f', '-xx', '-y', '-s', '16777216', '-e', 'signal=none', '-o', trace],
    ...['-e', `trace=${CHANGES.join()}`, ...(inject === undefined ? [] : ['-e', `inject=${inject}`])],
    ...[...paths.flatMap((path) => ['-P', path]), process.execPath],
  ];
}

/** Of libuv, which has as many as processors by default. */
export const ONE_THREAD = { UV_THREADPOOL_SIZE: '1' };

/** A run of Node.js until its end. */
export function runTraced(folder: string, args: readonly string[], injection: Injection = {}) {
  const trace = join(folder, 'trace');
  const [command = '', ...rest] = traced(trace, injection);
  const { stdout, stderr, status, signal } = spawnSync(command, [...rest, ...args], {
    ...{ encoding: 'utf8', timeout: 120_000 },
    env: { ...process.env, ...ONE_THREAD },
  });
  return { stdout, stderr, status, signal, calls: callsIn(trace) };
}

/** Ends the process in strace, which ends as it does. */
export async function endTraced(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  const [pid] = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim().split(' ');
  // It may have ended already, and 0 would be the whole group of processes.
  if (pid !== undefined && pid !== '') process.kill(Number(pid), signal);
  await ended;
}

export function callsIn(trace: string): readonly SystemCall[] {
  return readCalls(readFileSync(trace, 'latin1'));
}

/** What was written to pipes and sockets. */
export function toldBy(calls: readonly SystemCall[]): string {
  const told = calls.filter(({ name, paths: [path = ''] }) => /^write/.test(name) && /^(?:pipe|socket):/.test(path));
  return Buffer.concat(told.map(({ bytes, result }) => bytes.subarray(0, Math.max(0, result)))).toString();
}

const WORD = /"((?:\\x[0-9a-f]{2})*)"|[^",{}[\]]+/g;
const DESCRIPTOR = /^(?:AT_FDCWD|\d+)<((?:\\x[0-9a-f]{2})*)>(\(deleted\))?$/;

/** Of the output of strace with {@link traced}. Calls that a kill ended are left out. */
function readCalls(text: string): readonly SystemCall[] {
  const begun = new Map<string, string>();
  const calls: SystemCall[] = [];
  for (const line of text.split('\n')) {
    const [thread = ''] = line.split(' ', 1);
    const rest = line.slice(thread.length).trimStart();
    if (rest.endsWith(' <unfinished ...>')) begun.set(thread, rest.slice(0, -' <unfinished ...>'.length));
    const resumed = /^<\.\.\. \w+ resumed>/.exec(rest);
    const whole = resumed === null ? rest : `${begun.get(thread) ?? ''}${rest.slice(resumed[0].length)}`;
    const [, name = '', args = '', result, after = ''] = /^(\w+)\((.*)\)\s+= (-?\d+)(.*)$/.exec(whole) ?? [];
    if (result !== undefined) calls.push(callOf(thread, name, args, Number(result), after));
  }
  return calls;
}

function callOf(thread: string, name: string, text: string, result: number, after: string): SystemCall {
  const strings: Buffer[] = [];
  const paths: (string | undefined)[] = [];
  const args: string[] = [];
  for (const [word, quoted] of text.matchAll(WORD)) {
    if (quoted !== undefined) {
      strings.push(bytesOf(quoted));
      if (!/write/.test(name)) paths.push(String(strings.at(-1)));
      continue;
    }
    const [, path, isRemoved] = DESCRIPTOR.exec(word.trim()) ?? [];
    if (path !== undefined) paths.push(isRemoved === undefined ? String(bytesOf(path)) : undefined);
    if (word.trim() !== '') args.push(word.trim());
  }
  const [, error] = /^ (E[A-Z]+) /.exec(after) ?? [];
  const isInjected = after.includes('(INJECTED)');
  return { ...{ thread, name, paths, args, result, error, isInjected }, bytes: Buffer.concat(strings) };
}

function bytesOf(escaped: string): Buffer {
  return Buffer.from(escaped.replaceAll('\\x', ''), 'hex');
}

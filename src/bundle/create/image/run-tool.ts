import { spawn } from 'node:child_process';
import { access, constants } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { reasonOf } from '../../../platform/app-error.ts';
import { bundleError } from '../../bundle-error.ts';

/** A program of the system, and the Debian package that has it. */
export interface Tool {
  readonly name: string;
  readonly package: string;
}

/** What a program is run with. */
interface ToolRun {
  readonly args: readonly string[];
  /** Default: that of this process. */
  readonly directory?: string;
  /** In addition to the environment of this process. */
  readonly env?: Readonly<Record<string, string>>;
}

const MAX_TEXT = 64 * 1024;

/**
 * Runs a program and waits until it ends; an abort kills it.
 *
 * @returns what it wrote to standard output and standard error, the last 64 KiB of each.
 * @throws AppError `bundle/tool` (`reject`) when it is missing or fails, with its last line
 */
export async function runTool(
  tool: Tool,
  { args, directory, env }: ToolRun,
  signal: AbortSignal,
): Promise<{ readonly stdout: string; readonly stderr: string }> {
  signal.throwIfAborted();
  const path = await pathOf(tool);
  const ended = await new Promise<{ code: number | null; stdout: string; stderr: string }>((resolve, reject) => {
    const child = spawn(path, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, LC_ALL: 'C', TZ: 'UTC', ...env },
      signal,
      ...(directory !== undefined && { cwd: directory }),
    });
    const texts = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const) {
      child[name].on('data', (chunk: Buffer) => {
        texts[name] = `${texts[name]}${chunk.toString('utf8')}`.slice(-MAX_TEXT);
      });
    }
    child.on('error', (error) => {
      // After an abort, wait until it has ended: its files are removed next.
      if (!signal.aborted) reject(toolError(tool, `can't be started: ${reasonOf(error)}`));
    });
    child.on('close', (code) => resolve({ code, ...texts }));
  });
  signal.throwIfAborted();
  if (ended.code === 0) return ended;
  throw toolError(tool, lastLine(ended.stderr) || lastLine(ended.stdout) || `exit code ${ended.code}`);
}

/** @throws AppError `bundle/tool` (`reject`) that names all missing programs and their packages */
export async function requireTools(tools: readonly Tool[]): Promise<void> {
  const missing: Tool[] = [];
  for (const tool of tools) if ((await findTool(tool)) === undefined) missing.push(tool);
  if (missing.length > 0) throw notInstalled(missing);
}

/** A failure of a program. */
export function toolError({ name }: Tool, why: string) {
  return bundleError('bundle/tool', `${name}: ${why}`);
}

async function pathOf(tool: Tool): Promise<string> {
  const path = await findTool(tool);
  if (path === undefined) throw notInstalled([tool]);
  return path;
}

/** The PATH of ordinary users lacks the folders of programs that need no root here. */
async function findTool({ name }: Tool): Promise<string | undefined> {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/sbin'];
  for (const folder of folders.filter((one) => one !== '')) {
    const path = join(folder, name);
    const isThere = await access(path, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (isThere) return path;
  }
  return undefined;
}

function notInstalled(tools: readonly Tool[]) {
  const names = tools.map(({ name }) => name).join(', ');
  const packages = [...new Set(tools.map((tool) => tool.package))].join(' ');
  const are = tools.length === 1 ? 'is' : 'are';
  return bundleError(
    'bundle/tool',
    `${names} ${are} not installed: install ${packages}, on Debian with apt-get install ${packages}`,
  );
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1) ?? '';
}

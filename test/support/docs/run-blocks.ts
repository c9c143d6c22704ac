import { execFile } from 'node:child_process';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { bundleIntoCache } from '../bundles/bundle-program.ts';

const execute = promisify(execFile);

/**
 * The text of every code block of a Markdown file below one heading, up to the next heading of the
 * same or a higher level.
 */
export async function blocksBelow(path: string, heading: string): Promise<string[]> {
  const lines = (await readFile(path, 'utf8')).split('\n');
  const level = heading.indexOf(' ');
  const start = lines.indexOf(heading);
  if (start < 0) throw new Error(`${path} has no heading '${heading}'`);
  let isCode = false;
  const section: string[] = [];
  for (const line of lines.slice(start + 1)) {
    if (line.startsWith('```')) isCode = !isCode;
    const [, marks = ''] = (!isCode && /^(#+) /.exec(line)) || [];
    if (marks !== '' && marks.length <= level) break;
    section.push(line);
  }
  return [...section.join('\n').matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block = '']) => block);
}

/**
 * A folder with the program `stickpin` as it is in the working tree, to be put before PATH.
 */
export async function stickpinOnPath(folder: string): Promise<string> {
  const file = await bundleIntoCache('src/stickpin.ts', 'command-line');
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'stickpin'), `#!/bin/sh\nexec '${process.execPath}' '${file}' "$@"\n`);
  await chmod(join(folder, 'stickpin'), 0o755);
  return folder;
}

/**
 * Runs blocks of commands one after the other in one bash, which ends at the first that fails.
 *
 * @returns what they wrote to standard output
 */
export async function runBlocks(
  blocks: readonly string[],
  { directory, programs, env = {} }: { directory: string; programs: string; env?: Record<string, string> },
): Promise<string> {
  const path = [programs, process.env.PATH].join(delimiter);
  const { stdout } = await execute('/bin/bash', ['-euo', 'pipefail', '-c', blocks.join('\n')], {
    cwd: directory,
    env: { ...process.env, XDG_CACHE_HOME: join(directory, '.cache'), ...env, PATH: path },
    maxBuffer: 16 * 1024 * 1024,
  });
  return stdout;
}

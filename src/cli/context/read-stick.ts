import { mkdtemp, rm, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { type JsonFlag, printStderrLine } from '../output/text.ts';
import { cliError } from './cli-error.ts';
import type { CommandContext } from './command-context.ts';

/**
 * Calls `use` with `path`, or in place of an image (`*.img`) and a block device with a copy of the
 * folder `stickpin` on it. The copy is removed afterwards, or by the next call when this process is
 * killed, and is called `path` in what is printed.
 *
 * @throws AppError as `copyStick()`; errors of `use`
 */
export async function withStick<T>(
  path: string,
  { json }: JsonFlag,
  context: CommandContext,
  use: (path: string, context: CommandContext) => Promise<T>,
): Promise<T> {
  if (!(await isStick(path))) return use(path, context);
  const { copyStick } = await import('../../factory/stick/copy-stick.ts');
  const { env, signal } = context;
  const { removeOwnStale, stagingPrefix } = await import('../../factory/output/staging.ts');
  const parent = resolve(env.TMPDIR || '/var/tmp');
  const copy = join(parent, 'stickpin-stick');
  await removeOwnStale(copy);
  const folder = await mkdtemp(await stagingPrefix(copy)).catch((cause: unknown) => {
    throw cliError('cli/no-space', `no folder can be made in ${parent}: ${reasonOf(cause)}; name another with TMPDIR`);
  });
  try {
    if (!json) printStderrLine(`Copying the folder stickpin of ${path} to ${parent}`, undefined, context);
    await copyStick(path, folder, signal);
    return await use(folder, namedAs(path, folder, json === true, context));
  } catch (error) {
    throw error instanceof AppError ? error.reworded(error.message.replaceAll(folder, path)) : error;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function isStick(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => undefined);
  return found !== undefined && (found.isBlockDevice() || (found.isFile() && /\.img$/i.test(path)));
}

function namedAs(path: string, folder: string, isJson: boolean, context: CommandContext): CommandContext {
  const { stdout, stderr } = context;
  const inJson = JSON.stringify(path).slice(1, -1);
  return {
    ...context,
    stdout: (text) => stdout(text.replaceAll(folder, isJson ? inJson : path)),
    stderr: (text) => stderr(text.replaceAll(folder, path)),
  };
}

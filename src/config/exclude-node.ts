import { join } from 'node:path';
import { AppError, systemCodeOf } from '../platform/app-error.ts';
import { replaceFile } from '../platform/files/durable-file.ts';
import { loadSettings, type SettingsSources } from './load-settings.ts';

/** It is read after the other files of its folder. */
const FILE = 'zz-fleet-exclude.toml';

/**
 * Adds a node to `fleet.exclude`, in a separate file in the last folder of the sources.
 * @returns the file
 * @throws AppError `config/file` (`reject`) where it can't be written, or other settings hide it
 */
export async function excludeNode(sources: SettingsSources, node: string, signal: AbortSignal): Promise<string> {
  const { exclude } = (await loadSettings(sources, signal)).fleet;
  const folder = sources.fragments.flatMap((one) => ('folder' in one ? [one.folder] : [])).at(-1);
  if (folder === undefined) throw fault('the settings have no folder; set fleet.exclude in their file');
  const path = join(folder, FILE);
  const all = [...new Set([...exclude, node])].sort();
  const text = `# Written by 'stickpin fleet remove'. To take a node back, remove its name.\n[fleet]\nexclude = ${JSON.stringify(all)}\n`;
  try {
    await replaceFile({ path, mode: 0o644 }, text, signal);
  } catch (cause) {
    signal.throwIfAborted();
    const why =
      systemCodeOf(cause) === 'EACCES' ? 'run this with sudo' : `make the folder ${folder}, and check its disk`;
    throw fault(`${path} can't be written: ${why}`, cause);
  }
  const after = (await loadSettings(sources, signal)).fleet.exclude;
  if (after.includes(node)) return path;
  throw fault(`${path} has no effect, since another file sets fleet.exclude after it: name ${node} there`);
}

function fault(message: string, cause?: unknown): AppError {
  return new AppError({ code: 'config/file', message, disposition: 'reject', cause });
}

import { readdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type Finding, findingsOn } from '../domain/model/reason.ts';
import { openAccess } from '../platform/files/file-access.ts';
import type { Check, ExaminedNode } from './check.ts';

/** A folder of another program that stickpin writes to, and what could be changed there. */
interface ForeignFolder {
  readonly folder: string;
  readonly what: string;
}

/** Whether root alone may write the folders of other programs that stickpin writes to. */
export function checkFolders(node: ExaminedNode): readonly Check[] {
  const run = async (signal: AbortSignal): Promise<readonly Finding[]> => {
    const folders = [...metricsFolder(node), ...crioFolders(node), ...(await containerdFolders(node, signal))];
    const found = await Promise.all(folders.map((one) => judgeFolder(one, node.ownUid)));
    return [...new Map(found.flat().map((finding) => [finding.message, finding])).values()];
  };
  return [{ subject: 'folders', remedy: "look at the folder with 'ls -ld'", run }];
}

function metricsFolder({ settings: { metrics } }: ExaminedNode): readonly ForeignFolder[] {
  if (metrics.textfile === undefined) return [];
  return [{ folder: dirname(metrics.textfile), what: 'the metrics (metrics.textfile)' }];
}

function crioFolders({ crio }: ExaminedNode): readonly ForeignFolder[] {
  if (crio === undefined) return [];
  const { pinsLink, pinsFile, mirrorsLink } = crio.paths;
  return [pinsLink, pinsFile, mirrorsLink].map((path) => ({
    folder: dirname(path),
    what: 'what CRI-O pulls, from where, and what it pins',
  }));
}

/** Each registry has a folder. Another check reports a silent runtime. */
async function containerdFolders(
  { findRuntime, settings }: ExaminedNode,
  signal: AbortSignal,
): Promise<readonly ForeignFolder[]> {
  const runtime = settings.runtime.kind === 'embedded' ? undefined : await findRuntime(signal);
  try {
    const mirrors = await runtime?.mirrors(signal);
    const roots = mirrors?.kind === 'read' ? (mirrors.folders ?? []) : [];
    const below = await Promise.all(roots.map(foldersIn));
    return [...roots, ...below.flat()].map((folder) => ({ folder, what: 'from where containerd pulls' }));
  } catch {
    signal.throwIfAborted();
    return [];
  } finally {
    runtime?.close();
  }
}

async function foldersIn(root: string): Promise<readonly string[]> {
  const entries = await readdir(root, { withFileTypes: true }).catch(() => []);
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => join(root, name));
}

/** A folder that does not exist, or that only the daemon may read, gives no finding. */
async function judgeFolder({ folder, what }: ForeignFolder, ownUid: number): Promise<readonly Finding[]> {
  const found = await stat(folder).catch(() => undefined);
  const open = found && openAccess(folder, found, ownUid, 'find out whether that user has to write there');
  if (open === undefined) return [];
  return [findingsOn('folders').warning(`${open.message}, so users other than root could change ${what}`, open.remedy)];
}

import { mkdir, readlink, symlink, unlink } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { PathRecord } from '../config/config-file.ts';
import { configError } from '../cri/runtime-error.ts';
import { CRIO_PATHS, type CrioPaths } from './crio-config.ts';
import type { Reload } from './reload.ts';

export interface CrioLinks {
  /**
   * Makes `link` lead to `target`, which must exist: a dangling link would stop CRI-O
   * (docs/runtime-facts.md, fact 2).
   * @throws AppError `runtime/config` when something of somebody else has the name, or the link
   *   can't be made; `runtime/write`, `runtime/no-space`
   */
  ensure(link: string, target: string): Promise<void>;
}

/** The guard and `packaging/node/remove` know these without a record. */
const USUAL_LINKS: readonly string[] = [CRIO_PATHS.pinsLink, CRIO_PATHS.mirrorsLink];
/** The targets that tmpfiles.d writes. */
const USUAL_TARGETS: readonly string[] = [CRIO_PATHS.pinsFile, CRIO_PATHS.mirrorsFile];

/**
 * Links in the drop-in folders of CRI-O, recorded beside the persistent pins. INVARIANT: a link in
 * an unusual folder is recorded before it is made, so that it can be found when its target is
 * removed.
 */
export function createCrioLinks({ persistentPinsFile }: CrioPaths, change: Reload['change']): CrioLinks {
  const record = new PathRecord(join(dirname(persistentPinsFile), 'links'), USUAL_LINKS);
  return { ensure: (link, target) => ensure(record, change, link, target) };
}

export async function isLinked(link: string, target: string): Promise<boolean> {
  try {
    return resolve(dirname(link), await readlink(link)) === target;
  } catch {
    return false;
  }
}

async function ensure(record: PathRecord, change: Reload['change'], link: string, target: string): Promise<void> {
  const found = await targetOf(link, target);
  if (found !== undefined && found !== target && !USUAL_TARGETS.includes(found))
    throw configError(`${link} leads to ${found} and not to ${target}: remove it, and stickpin makes the right link`);
  if (!USUAL_LINKS.includes(link)) await record.write([...new Set([...(await record.read()), link])]);
  if (found === target) return;
  const read = () => readlink(link).catch(() => undefined);
  await change(read, () => make(link, target, found !== undefined));
}

async function make(link: string, target: string, isThere: boolean): Promise<void> {
  try {
    if (isThere) await unlink(link);
    await mkdir(dirname(link), { recursive: true });
    await symlink(target, link);
  } catch (error) {
    const advice = USUAL_LINKS.includes(link)
      ? 'run systemd-tmpfiles --create stickpin-crio.conf'
      : `let stickpin.service write to ${dirname(link)} (ReadWritePaths= in a drop-in of it), then run ` +
        "'systemctl daemon-reload' and 'systemctl restart stickpin'";
    throw configError(`${link} could not be made (${reasonOf(error)}): ${advice}`, error);
  }
}

/** Returns undefined when nothing exists at `link`. */
async function targetOf(link: string, wanted: string): Promise<string | undefined> {
  try {
    return resolve(dirname(link), await readlink(link));
  } catch (error) {
    const code = systemCodeOf(error);
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    if (code !== 'EINVAL') throw error;
    throw configError(
      `${link} is a file and should be a link to ${wanted}: move it away, and stickpin makes the link`,
      error,
    );
  }
}

import type { Stats } from 'node:fs';

/** Who else may write a path: a clause that begins with the path, and what to do. */
export interface OpenAccess {
  readonly message: string;
  readonly remedy: string;
}

/**
 * Who may write a path beside root and one user; undefined when nobody may. Access control lists
 * show in the group bits (acl(5)). A sticky bit does not keep others from adding files to a folder.
 */
export function openAccess(
  path: string,
  { mode, uid }: Pick<Stats, 'mode' | 'uid'>,
  ownUid = process.geteuid?.(),
): OpenAccess | undefined {
  if ((mode & 0o022) !== 0) {
    const who = (mode & 0o002) === 0 ? 'its group' : 'everybody';
    return { message: `${path} can be written by ${who}`, remedy: `run chmod go-w ${path}` };
  }
  if (uid === 0 || uid === ownUid) return undefined;
  const remedy = `if you made it, run chown root ${path}; otherwise move it away`;
  return { message: `${path} belongs to user ${uid}`, remedy };
}

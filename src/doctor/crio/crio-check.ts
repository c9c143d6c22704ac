import { readFile } from 'node:fs/promises';
import type { Finding } from '../../domain/model/reason.ts';
import { systemCodeOf } from '../../platform/app-error.ts';
import type { Check, ExaminedCrio } from '../check.ts';

/** What puts a missing file of the installation back. */
export const REINSTALL = 'run /usr/lib/stickpin/setup --crio yes';

const UNREADABLE = "run 'sudo stickpin doctor'; if root can't read it either, look at the file that the message names";

/**
 * A check that gives one finding about CRI-O's files. It does not apply to a node without CRI-O.
 */
export function crioCheck(
  subject: string,
  crio: ExaminedCrio | undefined,
  look: (crio: ExaminedCrio, signal: AbortSignal) => Promise<Finding>,
): readonly Check[] {
  if (crio === undefined) return [];
  return [{ subject, remedy: UNREADABLE, look: async (signal) => [await look(crio, signal)] }];
}

/** The text of a file; undefined when it does not exist. @throws system errors as they are */
export async function textOf(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

import { readlink, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { type Finding, findingsOn } from '../../domain/model/reason.ts';
import { systemCodeOf } from '../../platform/app-error.ts';
import type { Check, ExaminedCrio, ExaminedNode } from '../check.ts';
import { crioCheck } from './crio-check.ts';

/**
 * Whether our link in CRI-O's drop-in folder leads to the pins (docs/runtime-facts.md, facts 2 and
 * 4).
 */
export function checkCrioLink({ crio }: Pick<ExaminedNode, 'crio'>): readonly Check[] {
  return crioCheck('crio link', crio, lookAtLink);
}

async function lookAtLink({ paths: { pinsLink, pinsFile } }: ExaminedCrio): Promise<Finding> {
  const { ok, fault } = findingsOn('crio link');
  const make = 'run systemd-tmpfiles --create stickpin-crio.conf';
  let target: string;
  try {
    target = resolve(dirname(pinsLink), await readlink(pinsLink));
  } catch (error) {
    const isFile = systemCodeOf(error) === 'EINVAL';
    if (isFile)
      return fault(
        `${pinsLink} is a file of its own, so that CRI-O reads no pins of ours`,
        `move it away, then ${make}`,
      );
    return fault(`${pinsLink} is missing, so that CRI-O reads no pins of ours`, make);
  }
  if (target !== pinsFile)
    return fault(
      `${pinsLink} leads to ${target} and not to ${pinsFile}`,
      'remove it: stickpin makes the right link as soon as it has pins',
    );
  const kind = await kindOf(pinsFile);
  if (kind === 'file') return ok(`${pinsLink} leads to ${pinsFile}`);
  return fault(`${pinsLink} leads to ${kind === 'nothing' ? 'nothing' : 'no file'}: CRI-O would not start`, make);
}

async function kindOf(path: string): Promise<'file' | 'nothing' | 'other'> {
  try {
    return (await stat(path)).isFile() ? 'file' : 'other';
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return 'nothing';
    throw error;
  }
}

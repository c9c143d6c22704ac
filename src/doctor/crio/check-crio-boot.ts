import { type Finding, findingsOn } from '../../domain/model/reason.ts';
import type { Check, ExaminedCrio, ExaminedNode } from '../check.ts';
import { crioCheck, REINSTALL, textOf } from './crio-check.ts';

/** Whether systemd-tmpfiles makes the link and its target at boot. */
export function checkCrioBoot({ crio }: Pick<ExaminedNode, 'crio'>): readonly Check[] {
  return crioCheck('crio boot', crio, lookAtTmpfiles);
}

async function lookAtTmpfiles({ tmpfiles: candidates, paths: { pinsLink, pinsFile } }: ExaminedCrio): Promise<Finding> {
  const { ok, fault } = findingsOn('crio boot');
  for (const path of candidates) {
    const text = await textOf(path);
    if (text === undefined) continue;
    const lines = text.split('\n').map((line) => line.trim().split(/\s+/));
    const makes = (type: string, what: string) => lines.some(([kind, name]) => kind === type && name === what);
    if (makes('f', pinsFile) && makes('L', pinsLink)) return ok(`${path} makes the link and its target at boot`);
    return fault(`${path} does not make both ${pinsFile} (f) and ${pinsLink} (L) at boot`, REINSTALL);
  }
  return fault(`${candidates.at(-1)} is missing: nothing makes ${pinsFile} at boot`, REINSTALL);
}

import { type Finding, findingsOn } from '../../domain/model/reason.ts';
import type { Check, ExaminedCrio, ExaminedNode } from '../check.ts';
import { crioCheck, REINSTALL, textOf } from './crio-check.ts';

/** Whether the drop-in of crio.service restores the pins before each start. */
export function checkCrioGuard({ crio }: Pick<ExaminedNode, 'crio'>): readonly Check[] {
  return crioCheck('crio guard', crio, lookAtGuard);
}

async function lookAtGuard({ guard, paths: { pinsFile, persistentPinsFile } }: ExaminedCrio): Promise<Finding> {
  const { ok, fault, warning } = findingsOn('crio guard');
  const text = await textOf(guard);
  if (text === undefined) {
    return fault(
      `${guard} is missing: a start of CRI-O without ${pinsFile} fails, and its pins are not restored`,
      REINSTALL,
    );
  }
  const isWhole = text.includes('ExecStartPre=-') && text.includes(pinsFile) && text.includes(persistentPinsFile);
  if (isWhole) return ok(`${guard} brings the pins back before CRI-O starts`);
  return warning(`${guard} was changed and no longer names ${persistentPinsFile} and ${pinsFile}`, REINSTALL);
}

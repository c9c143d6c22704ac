import { stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type Finding, findingsOn } from '../../domain/model/reason.ts';
import type { Check, ExaminedCrio, ExaminedNode } from '../check.ts';
import { crioCheck } from './crio-check.ts';

/** Whether CRI-O reads our mirrors, and other users can still pull with podman and skopeo. */
export function checkCrioMirrors({ crio }: Pick<ExaminedNode, 'crio'>): readonly Check[] {
  return crioCheck('registries.conf.d', crio, lookAtMirrors);
}

/**
 * Every skopeo and podman of every user reads that folder, and fails on a file that it may not read
 * (docs/runtime-facts.md, fact 12).
 */
async function lookAtMirrors(
  { paths, rootsRegistriesFile, hiddenMirrors }: ExaminedCrio,
  signal: AbortSignal,
): Promise<Finding> {
  const { ok, fault } = findingsOn('registries.conf.d');
  const { mirrorsFile, mirrorsLink } = paths;
  if ((await stat(rootsRegistriesFile).catch(() => undefined)) !== undefined)
    return fault(
      `CRI-O reads ${rootsRegistriesFile} and nothing in ${dirname(mirrorsLink)}, so that it uses no mirror of stickpin`,
      `move it to ${dirname(mirrorsLink)}, and run systemctl reload crio`,
    );
  const hidden = await hiddenMirrors(signal);
  if (hidden !== undefined) return fault(hidden.fault.message, 'change that file, and run systemctl reload crio');
  const found = await stat(mirrorsLink).catch(() => undefined);
  if (found === undefined || (found.mode & 0o004) !== 0)
    return ok(`${mirrorsLink} keeps no podman or skopeo of others from pulling`);
  return fault(
    `${mirrorsFile} can't be read by everybody, so that podman and skopeo of other users fail`,
    `run chmod 0644 ${mirrorsFile}`,
  );
}

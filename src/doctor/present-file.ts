import { access } from 'node:fs/promises';
import { findingsOn } from '../domain/model/finding.ts';
import { type Check, INSTALL_AGAIN } from './check.ts';

/**
 * Whether one of the files of the installation is there; `consequence`: what does not work without
 * it.
 */
export function checkPresence(subject: string, candidates: readonly string[], consequence: string): Check {
  const { ok, fault } = findingsOn(subject);
  return {
    subject,
    remedy: "run 'sudo stickpin doctor'",
    look: async () => {
      for (const path of candidates) if (await exists(path)) return [ok(`${path} is there`)];
      return [fault(`${candidates.at(-1)} is missing, so that ${consequence}`, INSTALL_AGAIN)];
    },
  };
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

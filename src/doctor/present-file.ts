import { access } from 'node:fs/promises';
import { findingsOn } from '../domain/model/finding.ts';
import type { Check } from './check.ts';

/**
 * Whether one of the files that `install.sh` lays down is there; `consequence`: what does not work
 * without it.
 */
export function checkPresence(subject: string, candidates: readonly string[], consequence: string): Check {
  const { ok, fault } = findingsOn(subject);
  return {
    subject,
    remedy: "run 'sudo stickpin doctor'",
    look: async () => {
      for (const path of candidates) if (await exists(path)) return [ok(`${path} is there`)];
      return [fault(`${candidates.at(-1)} is missing, so that ${consequence}`, "run the archive's install.sh again")];
    },
  };
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

import { access } from 'node:fs/promises';
import { findingsOn } from '../domain/model/reason.ts';
import { type Check, INSTALL_AGAIN } from './check.ts';

const UDEV_PLACES = ['/etc/udev/rules.d/90-stickpin.rules', '/usr/lib/udev/rules.d/90-stickpin.rules'] as const;
const BUS_PLACES = ['/etc/dbus-1/system.d/io.stickpin1.conf', '/usr/share/dbus-1/system.d/io.stickpin1.conf'] as const;

/** Whether udev has the rules by which it reports sticks. */
export function checkUdevRules(): readonly Check[] {
  return [checkPresence('udev rules', UDEV_PLACES, 'no stick is noticed')];
}

/** Whether the system bus has the rules that say who may call the daemon. */
export function checkBusPolicy(): readonly Check[] {
  return [checkPresence('bus policy', BUS_PLACES, 'nobody may talk to the daemon')];
}

/**
 * Whether one of the files of the installation is there; `consequence`: what does not work without
 * it.
 */
function checkPresence(subject: string, candidates: readonly string[], consequence: string): Check {
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

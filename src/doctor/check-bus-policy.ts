import type { Check } from './check.ts';
import { checkPresence } from './present-file.ts';

const PLACES = ['/etc/dbus-1/system.d/io.stickpin1.conf', '/usr/share/dbus-1/system.d/io.stickpin1.conf'] as const;

/** Whether the system bus has the rules that say who may call the daemon. */
export function checkBusPolicy(): readonly Check[] {
  return [checkPresence('bus policy', PLACES, 'nobody may talk to the daemon')];
}

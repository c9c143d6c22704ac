import type { Check } from './check.ts';
import { checkPresence } from './present-file.ts';

const PLACES = ['/etc/udev/rules.d/90-stickpin.rules', '/usr/lib/udev/rules.d/90-stickpin.rules'] as const;

/** Whether udev has the rules by which it reports sticks. */
export function checkUdevRules(): readonly Check[] {
  return [checkPresence('udev rules', PLACES, 'no stick is noticed')];
}

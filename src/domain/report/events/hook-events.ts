import { formatDuration } from '../../../platform/sizes.ts';
import { bundleTitle } from '../../model/bundle.ts';
import type { Event } from '../../model/condition.ts';
import type { HookFailure, HookRun } from '../../state/hook.ts';
import type { StoredBundle } from '../../state/state.ts';
import { hookFailureText } from '../texts/hook-text.ts';

/**
 * A hook ended. @param why undefined when it succeeded
 * @param pauseMs when it is tried again; undefined when it is not
 */
export function hookEvent(
  { hook, unit, bundleId }: HookRun,
  { payload }: Pick<StoredBundle, 'payload'>,
  why: HookFailure | undefined,
  pauseMs: number | undefined,
): Event {
  const about = `Hook ${hook} for ${bundleTitle(payload)}`;
  if (why === undefined) return { kind: 'hookDone', level: 'info', bundleId, message: `${about}: ${unit} succeeded` };
  const again =
    pauseMs === undefined ? 'It is not run again for this' : `It is tried again in ${formatDuration(pauseMs)}`;
  const message = `${about} failed: ${hookFailureText(unit, why)}. ${again}`;
  return { kind: 'hookFailed', level: 'warn', bundleId, message };
}

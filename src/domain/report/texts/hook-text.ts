import { assertNever } from '../../../platform/app-error.ts';
import type { ActivationHold } from '../../gates/gates.ts';
import type { HookFailure } from '../../state/hook.ts';

/** Why a hook did not succeed, and where to look: a clause that begins with the unit. */
export function hookFailureText(unit: string, why: HookFailure): string {
  switch (why.kind) {
    case 'absent':
      return `there is no unit ${unit}: install it, or correct the settings in [hooks]`;
    case 'not-loaded':
      return `${unit} can't be started, since systemd says that it is "${why.state}": see 'systemctl status ${unit}'`;
    case 'active':
      return `${unit} is active already, so that starting it does nothing: it needs Type=oneshot, without RemainAfterExit=yes`;
    case 'ended': {
      const { job, result, status } = why;
      const how = result === undefined ? job : `${job}: ${result}`;
      return `${unit} ${how}${status === undefined ? '' : `, status ${status}`}; see 'journalctl -u ${unit}'`;
    }
    case 'unasked':
      return `${unit} could not be run: ${why.message}`;
    default:
      return assertNever(why);
  }
}

type HookData = Extract<ActivationHold, { readonly code: 'hook' }>['data'];

/** What hook before-activate holds an activation for. A clause without full stop. */
export function hookClause(data: HookData): string {
  const { unit, state, attempts } = data;
  switch (state) {
    case 'files':
      return `hook before-activate (${unit}) waits for the attached files of the release`;
    case 'start':
      return `hook before-activate (${unit}) has to succeed before`;
    case 'end':
      return `hook before-activate (${unit}) runs, and has to succeed before`;
    case 'retry': {
      const tries = attempts === 1 ? 'once' : `${attempts} times`;
      return `hook before-activate failed ${tries}: ${hookFailureText(unit, failureOf(data))}`;
    }
    default:
      return assertNever(state);
  }
}

/** The failure that the gate gave as plain values. */
function failureOf({
  failure = 'unasked',
  job = '',
  result,
  status,
  loadState = '',
  message = '',
}: HookData): HookFailure {
  switch (failure) {
    case 'ended':
      return { kind: failure, job, ...(result !== undefined && { result }), ...(status !== undefined && { status }) };
    case 'not-loaded':
      return { kind: failure, state: loadState };
    case 'unasked':
      return { kind: failure, message };
    default:
      return { kind: failure };
  }
}

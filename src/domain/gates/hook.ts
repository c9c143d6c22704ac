import { areFilesInstalled, beforeActivate, hasSucceeded } from '../release/hooks.ts';
import { type HookFailure, isSameRun } from '../state/hook.ts';
import { type GateContext, type GateVerdict, type Hold, type HoldData, PASS } from './gate.ts';

interface HookData extends HoldData {
  readonly unit: string;
  readonly state: 'files' | 'start' | 'end' | 'retry';
  readonly attempts?: number;
  readonly failure?: HookFailure['kind'];
  readonly job?: string;
  readonly result?: string;
  readonly status?: number;
  readonly loadState?: string;
  readonly message?: string;
}

type HookHold = Hold<'hook', HookData>;

/** Setting `hooks.before-activate`: the last gate. The unit starts when no other gate holds it. */
export function hook({
  bundle,
  policy,
  hooks,
}: Pick<GateContext, 'bundle' | 'policy' | 'hooks'>): GateVerdict<HookHold> {
  const run = beforeActivate(bundle, policy);
  if (run === undefined) return PASS;
  const { unit } = run;
  const held = (data: HookData, more: Pick<HookHold, 'releasedBy' | 'checkAgainAt'>): GateVerdict<HookHold> => ({
    kind: 'hold',
    hold: { code: 'hook', data, keepsDue: true, ...more },
  });
  // While it runs, its success may not be on the disk yet.
  if (hooks.running.some((one) => isSameRun(one, run))) return held({ unit, state: 'end' }, { releasedBy: 'event' });
  if (hasSucceeded(run, hooks.ledger)) return PASS;
  const failed = hooks.failed.find((one) => isSameRun(one, run));
  if (failed !== undefined) {
    const data = { unit, state: 'retry', attempts: failed.attempts, ...failureData(failed.why) } as const;
    return held(data, { releasedBy: 'time', checkAgainAt: failed.retryAt });
  }
  const state = areFilesInstalled(bundle, hooks.installed) ? 'start' : 'files';
  return held({ unit, state }, { releasedBy: 'event' });
}

function failureData(why: HookFailure): Partial<HookData> & Pick<HookData, 'failure'> {
  const { kind: failure } = why;
  switch (why.kind) {
    case 'ended':
      return {
        failure,
        job: why.job,
        ...(why.result !== undefined && { result: why.result }),
        ...(why.status !== undefined && { status: why.status }),
      };
    case 'not-loaded':
      return { failure, loadState: why.state };
    case 'unasked':
      return { failure, message: why.message };
    default:
      return { failure };
  }
}

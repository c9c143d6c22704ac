import { assertNever } from '../../../platform/app-error.ts';
import { defined } from '../../../platform/defined.ts';
import { formatCount, formatDuration } from '../../../platform/sizes.ts';
import type { ActivationHold } from '../../activation/gates.ts';
import { CREATED_AHEAD_MS } from '../../adoption/floors.ts';
import type { Failure, Unavailable } from '../../fleet/roll-out.ts';
import { MAX_RANGE_LENGTH } from '../../model/version.ts';
import type { Does } from '../actions.ts';
import { codesWhere, type Remedy } from '../entries.ts';
import type { Names } from '../names.ts';
import { hookFailureText } from '../texts/release-text.ts';
import { percentText, timeText, wallText } from '../texts/short-texts.ts';

type Code = ActivationHold['code'];
type DataOf<C extends Code> = Extract<ActivationHold, { readonly code: C }>['data'];

/** A clause about a release ("it"). A STATUS line has `what`; a message adds `more` to it. */
export interface HoldClause {
  readonly what: string;
  readonly more?: string;
  /** In the place of `what`, without a command. */
  readonly atNode?: string;
  readonly does?: Does;
}

interface HoldEntry<Data> {
  readonly says: (data: Data, names: Names) => HoldClause;
  readonly remedy?: Remedy;
  /** Default: calls support unless it ends automatically. */
  readonly does?: Does;
  /** What `stickpin activate` does; absent: it lifts the hold, or the hold is over in moments. */
  readonly activate?: 'refused' | 'waits';
  /** Reported elsewhere (trust, a failure), wanted by the maker, or over in moments. */
  readonly isQuiet?: true;
  /** A person or this node ends it; no other node can. */
  readonly isOwn?: true;
  /** An administrator ends it, as planned: nobody else is called. */
  readonly isForAdmin?: true;
  /** The event that ends it is something that a person does. */
  readonly needsPerson?: true;
}

const OTHER: Remedy = (release) =>
  `plug in another release, or run 'stickpin activate ${release}' to activate this one anyway, which asks first`;
const CHECK: Remedy = (release) =>
  `check that it is the release that you want, then run 'stickpin activate ${release}'`;
const ANYWAY: Remedy = (release) => `to activate it anyway, run 'stickpin activate ${release}'`;

/** Everything that is written of what holds an activation. */
export const HOLDS: { readonly [C in Code]: HoldEntry<DataOf<C>> } = {
  'trust/withdrawn': {
    says: ({ reason }) => ({ what: 'it is not trusted now', more: ` (${reason})` }),
    remedy: () => 'bring it signed again by a trusted key, or bring a newer release',
    activate: 'refused',
    isQuiet: true,
  },
  'engine/cancelled': {
    says: () => ({ what: 'its preload was cancelled', more: ', and images are missing' }),
    remedy: () => "plug its stick in again, or run 'stickpin rescan'",
    activate: 'refused',
    isQuiet: true,
    isOwn: true,
  },
  'engine/denied': {
    says: () => ({ what: 'it was rolled back on this node', more: ', and is not activated again automatically' }),
    remedy: (release) => `see 'stickpin history ${release}' for the cause, then ${CHECK(release)}`,
    isOwn: true,
  },
  'engine/not-next': {
    says: ({ next }, { name }) => ({
      what: `${name(next)} is activated next`,
      more: ', and this release is then skipped',
    }),
    isQuiet: true,
  },
  'rule/from': { says: fromClause, remedy: OTHER },
  'rule/barrier': {
    says: ({ barrier, reason, lacks }, { name }) => {
      const { current = '', must, end = '', more, does } = BARRIER[lacks];
      return defined({
        what: `barrier ${name(barrier)}${current} must be ${must} first (${name(reason)})${end}`,
        more,
        does,
      });
    },
    remedy: (release) =>
      `plug in the stick of the barrier, or wait until it is proven; if it is rejected, 'stickpin approve' takes that back; ${ANYWAY(release)}, which asks first`,
  },
  'rule/downgrade': {
    says: ({ current, by }, { name }) => ({
      what: `it is a downgrade from ${name(current)}`,
      more: `, the current release: its ${by} is lower`,
    }),
    remedy: OTHER,
    isOwn: true,
  },
  'rule/deadend': {
    says: ({ current, reason, saidBy }, { name }) => ({
      what: `the current release ${name(current)} is a dead end (${name(reason)})`,
      more: `, says ${saidBy}`,
    }),
    remedy: OTHER,
    isOwn: true,
  },
  'rule/rollout': { says: rolloutClause, remedy: ANYWAY },
  'rule/end-of-life': {
    says: ({ endOfLife, ...clock }) => ({
      what: `its end of life was on ${endOfLife}`,
      more: ` (rule "endOfLife")${doubt(clock)}`,
    }),
    remedy: OTHER,
    isOwn: true,
  },
  window: { says: windowClause, remedy: ANYWAY },
  clock: {
    says: clockClause,
    remedy: (release) =>
      `set the clock of this node, and check what it is synchronised with ('timedatectl timesync-status', 'chronyc sources'); if it is right, the bundle was made with a wrong clock: ${ANYWAY(release)}`,
    isOwn: true,
    needsPerson: true,
  },
  'engine/floor-unknown': {
    says: ({ stream }) => ({
      what: 'the records of earlier releases are lost',
      more: `, so it is not known which release of ${stream} was activated on this node before`,
    }),
    remedy: CHECK,
    isOwn: true,
  },
  'engine/below-floor': {
    says: ({ stream, sequence, floor }) => ({
      what: `its sequence ${sequence} is below ${floor}, which was activated before`,
      more: ` in stream ${stream}`,
    }),
    remedy: CHECK,
    isOwn: true,
  },
  'engine/manual': {
    says: ({ by }) => ({ what: `${MANUAL[by]}: an administrator activates it` }),
    remedy: ANYWAY,
    does: 'done-admin',
    isForAdmin: true,
    isQuiet: true,
    isOwn: true,
  },
  'engine/tag-of-other-stream': {
    says: ({ tag, stream, other, holder }, { name }) => ({
      what: `tag ${name(tag)} belongs to ${name(holder)}`,
      more: ` of stream ${other}, which holds it for another image, so stream ${stream} may not take it. Give that release up first ('stickpin unpin ${holder}'), or use other tags`,
    }),
    remedy: () => "give up the other release with 'stickpin unpin', or use other tags",
    activate: 'refused',
    isOwn: true,
  },
  'engine/pulls-from-elsewhere': {
    says: (data, { name }) =>
      data.kind === 'unknown'
        ? { what: 'it is not known which images static pods and containers use', more: HOLD_SETTING }
        : {
            what: `${name(data.image)}${data.more === 0 ? '' : ` and ${formatCount(data.more, 'other image')}`} would still come from elsewhere`,
            more: ` (${data.usedBy})${HOLD_SETTING}`,
          },
    remedy: () => 'add the image to a bundle under this name, or let the pod use another image',
    activate: 'refused',
    isOwn: true,
    needsPerson: true,
  },
  'engine/content-unchecked': { says: () => ({ what: 'its images are checked first' }), isQuiet: true },
  'engine/content-damaged': {
    says: ({ image, more }, { name }) => ({
      what:
        more === 0
          ? `its image ${name(image)} is damaged on this node`
          : `${more + 1} of its images are damaged on this node, among them ${name(image)}`,
    }),
    remedy: (release) => `plug in the stick of ${release}; ${ANYWAY(release)}`,
    isQuiet: true,
    needsPerson: true,
  },
  'fleet/unknown': {
    says: () => ({
      what: 'stickpin-fleet.service does not answer',
      more: ", so nothing is known of the other nodes: see 'systemctl status stickpin-fleet'",
    }),
    remedy: () => "see 'systemctl status stickpin-fleet' and start it",
    needsPerson: true,
  },
  'fleet/reading': {
    says: ({ why }) => ({
      what: 'the Nodes of the cluster are read first',
      more: why === undefined ? ': nobody needed them before' : `: the order needs their labels. ${why}`,
    }),
    remedy: (release) => `they are read once the Kubernetes API answers; ${ANYWAY(release)}`,
    isQuiet: true,
  },
  'fleet/nobody-known': {
    says: ({ waitMs, isFirst }) => ({
      what: 'no other node is known',
      more: `, and the Kubernetes API has not said that there is none (see 'stickpin fleet status'); this node counts as alone once stickpin-fleet.service has searched for ${formatDuration(waitMs)}${isFirst ? '' : ', and the release was ready for as long'}`,
    }),
  },
  'fleet/paused': {
    says: ({ id, node, by, why, until, passedOnBy }, { name }) => ({
      what: `its roll-out was paused on ${name(node)}${passedOnBy === undefined ? '' : `, as ${name(passedOnBy)} says,`} until ${timeText(until)} (${id})`,
      more: ` by ${by}: ${why}`,
    }),
    remedy: (release) =>
      `to end the pause, run 'stickpin fleet resume' with its id on that node or on one of the control plane; ${ANYWAY(release)}`,
  },
  'fleet/failed': {
    says: (data, { name }) => ({
      what: `${FAILURES[data.why](name(data.node))}`,
      more: `, so it is not activated on other nodes automatically${leftOut(data)}`,
    }),
    remedy: (release) =>
      `see 'stickpin history ${release}' on that node for the cause, and repair it; then plug in a newer release, or run 'stickpin activate ${release}'`,
    needsPerson: true,
  },
  'fleet/no-canary': {
    says: ({ selector, nodes }, { name }) => ({
      what: `no node that takes part has the label ${name(selector)}, which chooses its canaries`,
      more: nodes === '' ? '' : `: left out is ${nodes}`,
    }),
    remedy: (release) =>
      `uncordon or repair a node with this label, or label another one; 'stickpin fleet remove' takes out one that is lost; ${ANYWAY(release)}`,
    needsPerson: true,
  },
  'fleet/not-ready': {
    says: (data, { name }) => ({
      what: `it waits for ${name(data.node)}${data.more === 0 ? '' : ` and ${formatCount(data.more, 'other node')}`} to load it`,
      more: `: all nodes load it first, and ${data.node} ${loadText(data)}${leftOut(data)}`,
    }),
  },
  'fleet/order': {
    says: (data, { name }) => ({
      what:
        data.phase === 'activated'
          ? `it waits for containers of ${name(data.node)} to run from it`
          : `it waits for ${name(data.node)} to activate it`,
      more: `${data.reason === undefined ? '' : ` (${data.reason})`}: nodes activate it in the order of the cluster${leftOut(data)}`,
    }),
  },
  'fleet/soak': {
    says: (data, { name }) => ({
      what: `it waits until canary ${name(data.node)} has run it well for ${formatDuration(data.forMs)}`,
      more: `, and has proven it where containers show that: then the other nodes follow${leftOut(data)}`,
    }),
  },
  'fleet/settle': {
    says: (data, { name }) => ({
      what: `it waits until ${name(data.node)} has run it and was Ready for ${formatDuration(data.forMs)}`,
      more: leftOut(data),
    }),
  },
  'fleet/unavailable': {
    says: (data, { name }) => ({
      what: `it waits, since ${name(data.node)} ${UNAVAILABLE[data.why]}`,
      more: `: no more than ${formatCount(data.most, 'node')} may be unavailable at once${leftOut(data)}`,
    }),
    remedy: (release) => `repair that node; ${ANYWAY(release)}`,
  },
  'fleet/cordoned': {
    says: ({ node }, { name }) => ({
      what: `Node ${name(node)} is cordoned`,
      more: ', and the other nodes do not wait for it',
    }),
    remedy: (release) => `run 'kubectl uncordon' for this node when its maintenance is over; ${ANYWAY(release)}`,
    needsPerson: true,
  },
  'fleet/lock': {
    says: ({ server, why, isUnknown }, { name }) => ({
      what: `it waits for the lock of ${name(server)}${why === undefined ? '' : `: ${name(why)}`}`,
      more: isUnknown ? ': stickpin-fleet.service does not answer' : '',
    }),
    remedy: (release) => `see 'systemctl status stickpin-fleet' and the FleetLock server; ${ANYWAY(release)}`,
  },
  'engine/tags-in-motion': {
    says: () => ({ what: 'another release is being activated now', more: '; this one comes after it' }),
    isQuiet: true,
  },
  'engine/activation-failed': {
    says: ({ reason }) => ({ what: 'its activation failed and is retried', more: ` (${reason})` }),
    remedy: (release) => `see 'stickpin show ${release}'; the activation is retried`,
    isQuiet: true,
    needsPerson: true,
  },
  hook: {
    says: hookClause,
    remedy: () => "see 'systemctl status' of the unit that the message names; after a failure it is retried",
    activate: 'waits',
    isOwn: true,
  },
};

/** Holds that no `stickpin activate` ends. */
export const WITHOUT_COMMAND = codesWhere(HOLDS, ({ activate }) => activate !== undefined);

/** Holds that `stickpin activate` is refused for. */
export const REFUSING = codesWhere(HOLDS, ({ activate }) => activate === 'refused');

export const QUIET = codesWhere(HOLDS, ({ isQuiet }) => isQuiet);

const NEEDS_PERSON = codesWhere(HOLDS, ({ needsPerson }) => needsPerson);

/** Whether time or an event ends a hold without a person. A failed hook is tried again. */
export function endsAlone({ code, releasedBy }: { readonly code: string; readonly releasedBy: string }): boolean {
  if (code === 'hook') return releasedBy === 'event';
  return releasedBy === 'time' || (releasedBy === 'event' && !NEEDS_PERSON.has(code));
}

const BARRIER: Readonly<Record<DataOf<'rule/barrier'>['lacks'], BarrierWords>> = {
  bundle: {
    must: 'activated',
    end: ': plug in its stick',
    more: ', since it is not on this node',
    does: 'plug-in-other',
  },
  trust: {
    must: 'activated and proven',
    end: ', and it is rejected or not trusted',
    more: ' on this node',
    does: 'call-support',
  },
  activation: { must: 'activated and proven' },
  proof: { current: ', the current release,', must: 'proven' },
};

interface BarrierWords {
  readonly current?: string;
  readonly must: string;
  readonly end?: string;
  readonly more?: string;
  readonly does?: Does;
}

const MANUAL: Readonly<Record<DataOf<'engine/manual'>['by'], string>> = {
  release: 'its schedule is "manual"',
  node: 'the setting update.strategy is "manual" on this node',
  fleet: 'the setting fleet.activate is "manual" on this node',
};

const HOLD_SETTING = ', and update.pulls_from_elsewhere is "hold"';

function fromClause({ from, current, isUnreadable, after }: DataOf<'rule/from'>, { name }: Names): HoldClause {
  if (from.length > MAX_RANGE_LENGTH) {
    return {
      what: `its rule "from" has more than ${MAX_RANGE_LENGTH} characters, so that it is not read`,
      more: ': have the release made again',
    };
  }
  if (isUnreadable) {
    return { what: `its rule "from" (${name(from)}) can't be compared with the current release ${name(current)}` };
  }
  const what = `its rule "from" needs ${name(from)}, and the current release is ${name(current)}`;
  return defined({ what, more: after && `; ${after} is activated first` });
}

function rolloutClause({ turn, share, wariness, source, ...clock }: DataOf<'rule/rollout'>): HoldClause {
  const cautious = `wariness ${Number(wariness.toPrecision(3))}`;
  const why =
    source === 'none'
      ? ` (${cautious}, since /etc/machine-id has no usable id; the setting update.rollout_wariness replaces it)`
      : ` (${cautious})`;
  return turn === undefined
    ? {
        what: `its rule "rollout" is for ${percentText(share)} of the nodes, and this node is not one of them`,
        more: why,
      }
    : { what: `its rule "rollout" allows it on this node from ${timeText(turn)}`, more: `${doubt(clock)}${why}` };
}

function windowClause({ opensAt, closesAt, timeZone, ...clock }: DataOf<'window'>): HoldClause {
  if (opensAt === undefined) return { what: 'it waits for a window, and no window opens in the next weeks' };
  const end = closesAt === undefined ? ', with no end within weeks' : `, until ${wallText(closesAt, timeZone)}`;
  return {
    what: `it waits for the next window, ${wallText(opensAt, timeZone)} (${timeZone})`,
    more: `${end}${doubt(clock)}`,
  };
}

function clockClause({ kind, least, hasWindow, hasRollout, hasEndOfLife }: DataOf<'clock'>): HoldClause {
  const unjudged = [
    ...(hasWindow ? ['the windows of this node'] : []),
    ...(hasRollout ? ['its rollout'] : []),
    ...(hasEndOfLife ? ['its end of life'] : []),
  ];
  const until = `until then ${unjudged.join(' and ')} can't be judged`;
  if (kind === 'far-before-bundle') {
    return {
      what: `this node's synchronised clock is over 24 h behind a bundle made on ${timeText(least + CREATED_AHEAD_MS)}`,
      more: `, of the same stream: one of them is wrong. Check what the clock is synchronised with; ${until}`,
    };
  }
  const event = kind === 'before-build' ? 'stickpin was built' : 'a bundle of its stream was made';
  return {
    what: `the clock of this node is wrong, set it: it shows a time before ${timeText(least)}`,
    more: `, when ${event}; ${until}`,
  };
}

function doubt({ isClockUnsure }: { readonly isClockUnsure: boolean }): string {
  return isClockUnsure ? ", by this node's clock, which is not synchronised" : '';
}

function loadText({ phase, percent, reason, isUnknown }: DataOf<'fleet/not-ready'>): string {
  if (isUnknown) return 'has too many releases to say whether it has it';
  if (phase === undefined) return 'does not have it yet';
  if (percent !== undefined) return `has loaded ${percent} % of it`;
  return reason === undefined ? `has not loaded it yet (${phase})` : `does not load it (${phase}: ${reason})`;
}

const FAILURES: Readonly<Record<Failure, (node: string) => string>> = {
  'rolled-back': (node) => `it was rolled back on ${node}`,
  'not-ready': (node) => `${node} activated it and is not Ready since`,
  silent: (node) => `${node} has been silent since it activated it`,
  degraded: (node) => `it is degraded on ${node}`,
};

const UNAVAILABLE: Readonly<Record<Unavailable, string>> = {
  'not-ready': 'is not Ready',
  silent: 'is silent',
  cordoned: 'is cordoned',
  between: 'activates it',
};

function leftOut({ absent, out }: { readonly absent?: string; readonly out?: string }): string {
  const silent = absent === undefined ? '' : `. Left out, since they are silent: ${absent}`;
  return `${silent}${out === undefined ? '' : `. Left out, since they are cordoned: ${out}`}`;
}

function hookClause(data: DataOf<'hook'>): HoldClause {
  const { unit } = data;
  switch (data.state) {
    case 'files':
      return { what: `hook before-activate (${unit}) waits for the attached files of the release` };
    case 'start':
      return { what: `hook before-activate (${unit}) must succeed first` };
    case 'end':
      return { what: `hook before-activate (${unit}) runs and must succeed first` };
    case 'retry': {
      const tries = data.attempts === 1 ? 'once' : `${data.attempts} times`;
      const atNode = `hook before-activate failed ${tries}`;
      return { what: `${atNode}: ${hookFailureText(unit, data.why)}`, atNode };
    }
    default:
      return assertNever(data);
  }
}

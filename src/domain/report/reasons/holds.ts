import { assertNever } from '../../../platform/app-error.ts';
import { capital } from '../../../platform/plain-text.ts';
import { formatCount } from '../../../platform/sizes.ts';
import type { ActivationHold } from '../../activation/gates.ts';
import { CREATED_AHEAD_MS } from '../../adoption/floors.ts';
import { MAX_RANGE_LENGTH } from '../../model/version.ts';
import { codesWhere, type HoldData, type HoldEntries, type Remedy, type Said } from '../entries.ts';
import type { Names } from '../names.ts';
import { hookFailureText } from '../texts/release-text.ts';
import { percentText, timeText, wallText } from '../texts/short-texts.ts';
import { ANYWAY, FLEET_HOLDS, type FleetHoldCode } from './fleet-holds.ts';

const OTHER: Remedy = (release) =>
  `plug in another release, or run 'stickpin activate ${release}' to activate this one anyway, which asks first`;
const CHECK: Remedy = (release) =>
  `check that it is the release that you want, then run 'stickpin activate ${release}'`;

/** Holds that do not depend on other nodes. */
const NODE_HOLDS: HoldEntries<Exclude<ActivationHold['code'], FleetHoldCode>> = {
  'trust/withdrawn': {
    short: 'K-21',
    means: 'The release is not trusted now',
    says: ({ reason }) => ({ what: 'it is not trusted now', details: [`The reason is ${reason}`] }),
    remedy: () => 'bring it signed again by a trusted key, or bring a newer release',
    activate: 'refused',
    isQuiet: true,
  },
  'engine/cancelled': {
    says: () => ({
      what: 'its preload was cancelled, and images are missing',
      next: 'To continue, plug its stick in again',
    }),
    activate: 'refused',
    isQuiet: true,
  },
  'engine/denied': {
    short: 'A-10',
    means: 'The release was rolled back before',
    says: () => ({ what: 'it was rolled back on this node' }),
    remedy: (release) => `see 'stickpin history ${release}' for the cause, then ${CHECK(release)}`,
    isOwn: true,
  },
  'engine/not-next': {
    short: 'A-11',
    means: 'Another release is activated first',
    says: ({ next }, { name }) => ({
      what: `${name(next)} is activated next`,
      details: ['This release is then skipped'],
    }),
    isQuiet: true,
  },
  'rule/from': {
    short: 'A-02',
    means: 'The release does not follow the current one',
    says: fromWords,
    remedy: OTHER,
  },
  'rule/barrier': {
    short: 'A-03',
    means: 'Another release must be activated first',
    says: barrierWords,
    remedy: (release) =>
      `plug in the stick of the barrier, or wait until it is proven; if it is rejected, 'stickpin approve' takes that back; ${ANYWAY(release)}, which asks first`,
  },
  'rule/downgrade': {
    short: 'A-04',
    means: 'The release is older than the current one',
    says: ({ current, by }, { name }) => ({
      what: `it is a downgrade from the current release ${name(current)}`,
      details: [`Its ${by} is lower`],
    }),
    remedy: OTHER,
    isOwn: true,
  },
  'rule/deadend': {
    short: 'A-05',
    means: 'The current release is a dead end',
    says: ({ current, reason, saidBy }, { name }) => ({
      what: `the current release ${name(current)} is a dead end (${name(reason)})`,
      details: [`Release ${saidBy} says so`],
    }),
    remedy: OTHER,
    isOwn: true,
  },
  'rule/rollout': {
    short: 'A-06',
    means: 'It is not the turn of this node yet, or never',
    says: rolloutWords,
    remedy: ANYWAY,
    does: 'wait',
  },
  'rule/end-of-life': {
    short: 'A-07',
    means: 'The release is past its end of life',
    says: ({ endOfLife, ...clock }) => ({
      what: `its end of life was on ${endOfLife}`,
      details: ['Its rule "endOfLife" says so', ...doubt(clock)],
    }),
    remedy: OTHER,
    isOwn: true,
  },
  window: {
    short: 'A-08',
    means: 'The release waits for a maintenance window',
    says: windowWords,
    remedy: ANYWAY,
    does: 'wait',
  },
  clock: {
    short: 'A-09',
    means: 'The clock of the node is wrong',
    says: clockWords,
    remedy: (release) =>
      `set the clock of this node, and check what it is synchronised with ('timedatectl timesync-status', 'chronyc sources'); if it is right, the bundle was made with a wrong clock: ${ANYWAY(release)}`,
    isOwn: true,
    needsPerson: true,
  },
  'engine/floor-unknown': {
    short: 'A-12',
    means: 'It is not known what ran on the node before',
    says: ({ stream }) => ({
      what: 'the records of earlier releases are lost',
      details: [`It is not known which release of ${stream} was activated on this node before`],
    }),
    remedy: CHECK,
    isOwn: true,
  },
  'engine/below-floor': {
    short: 'A-13',
    means: 'A newer release was activated before',
    says: ({ stream, sequence, floor }) => ({
      what: `its sequence ${sequence} is below ${floor}, which was activated before`,
      details: [`Sequences of stream ${stream} only grow`],
    }),
    remedy: CHECK,
    isOwn: true,
  },
  'engine/manual': {
    short: 'A-01',
    means: 'The release is loaded, and an administrator activates it',
    says: ({ by }) => ({ what: MANUAL[by], next: 'An administrator activates it' }),
    remedy: (release) => `run 'stickpin activate ${release}'`,
    does: 'done-admin',
    isForAdmin: true,
    isQuiet: true,
    isOwn: true,
  },
  'engine/tag-of-other-stream': {
    short: 'A-14',
    means: 'A tag belongs to a release of another stream',
    says: ({ tag, stream, other, holder }, { name }) => ({
      what: `tag ${name(tag)} belongs to ${name(holder)}`,
      details: [`Stream ${other} holds it for another image, so stream ${stream} may not take it`],
      run: `Give that release up first ('stickpin unpin ${holder}'), or use other tags`,
    }),
    remedy: () => "give up the other release with 'stickpin unpin', or use other tags",
    activate: 'refused',
    isOwn: true,
  },
  'engine/pulls-from-elsewhere': {
    short: 'A-15',
    means: 'Pods use images that no bundle has',
    says: (data, { name }) => {
      const setting = 'The setting update.pulls_from_elsewhere is "hold"';
      if (data.kind === 'unknown')
        return { what: 'it is not known which images static pods and containers use', details: [setting] };
      const others = data.more === 0 ? '' : ` and ${formatCount(data.more, 'other image')}`;
      return {
        what: `${name(data.image)}${others} would still come from elsewhere`,
        details: [`It is used by ${data.usedBy}`, setting],
        run: 'Add it to a bundle under this name, or let the pod use another image',
      };
    },
    remedy: () => 'add the image to a bundle under this name, or let the pod use another image',
    activate: 'refused',
    isOwn: true,
    needsPerson: true,
  },
  'engine/content-unchecked': {
    short: 'A-16',
    means: 'Images are checked before the activation',
    says: () => ({ what: 'its images are checked first' }),
    isQuiet: true,
  },
  'engine/content-damaged': {
    short: 'A-17',
    means: 'Damaged images hold the activation',
    says: ({ image, more }, { name }) => ({
      what:
        more === 0
          ? `its image ${name(image)} is damaged on this node`
          : `${more + 1} of its images are damaged on this node, among them ${name(image)}`,
      next: `Plug in its stick, and ${more === 0 ? 'it is' : 'they are'} loaded again`,
    }),
    does: 'plug-in',
    remedy: (release) => `plug in the stick of ${release}; ${ANYWAY(release)}`,
    isQuiet: true,
    needsPerson: true,
  },
  'engine/tags-in-motion': {
    short: 'A-18',
    means: 'Another release is being activated',
    says: () => ({ what: 'another release is being activated now', details: ['This one comes after it'] }),
    isQuiet: true,
  },
  'engine/activation-failed': {
    short: 'A-19',
    means: 'The activation failed and is retried',
    says: ({ reason }) => ({ what: 'its activation failed and is retried', details: [`The reason is ${reason}`] }),
    remedy: (release) => `see 'stickpin show ${release}'; the activation is retried`,
    does: 'wait',
    isQuiet: true,
    needsPerson: true,
  },
  hook: {
    short: 'H-01',
    means: 'The activation waits for a hook',
    says: hookWords,
    remedy: () => "see 'systemctl status' of the unit that the message names; after a failure it is retried",
    activate: 'waits',
    isOwn: true,
  },
};

/** All texts of holds. */
export const HOLDS: HoldEntries<ActivationHold['code']> = { ...NODE_HOLDS, ...FLEET_HOLDS };

/** No `stickpin activate` ends these holds. */
export const WITHOUT_COMMAND = codesWhere(HOLDS, ({ activate }) => activate !== undefined);

/** These holds make `stickpin activate` fail. */
export const REFUSING = codesWhere(HOLDS, ({ activate }) => activate === 'refused');

export const QUIET = codesWhere(HOLDS, ({ isQuiet }) => isQuiet);

const NEEDS_PERSON = codesWhere(HOLDS, ({ needsPerson }) => needsPerson);

/** Whether time or an event ends a hold without a person. A failed hook is retried. */
export function endsAlone({ code, releasedBy }: { readonly code: string; readonly releasedBy: string }): boolean {
  if (code === 'hook') return releasedBy === 'event';
  return releasedBy === 'time' || (releasedBy === 'event' && !NEEDS_PERSON.has(code));
}

const MANUAL: Readonly<Record<HoldData<'engine/manual'>['by'], string>> = {
  release: 'its schedule is "manual"',
  node: 'the setting update.strategy is "manual" on this node',
  fleet: 'the setting fleet.activate is "manual" on this node',
};

function barrierWords({ barrier, reason, lacks }: HoldData<'rule/barrier'>, { name }: Names): Said {
  const known = name(barrier);
  const why = `first (${name(reason)})`;
  switch (lacks) {
    case 'bundle':
      return {
        what: `barrier ${known} must be activated ${why}`,
        next: `Plug in the stick of ${known}, which is not on this node`,
        does: 'plug-in-other',
      };
    case 'trust':
      return {
        what: `barrier ${known} must be activated and proven ${why}`,
        details: ['It is rejected or not trusted on this node'],
        does: 'call-support',
      };
    case 'activation':
      return { what: `barrier ${known} must be activated and proven ${why}` };
    case 'proof':
      return { what: `barrier ${known}, the current release, must be proven ${why}` };
    default:
      return assertNever(lacks);
  }
}

function fromWords({ from, current, isUnreadable, after }: HoldData<'rule/from'>, { name }: Names): Said {
  if (from.length > MAX_RANGE_LENGTH)
    return {
      what: `its rule "from" has more than ${MAX_RANGE_LENGTH} characters, so that it is not read`,
      next: 'Have the release made again',
    };
  if (isUnreadable)
    return { what: `its rule "from" (${name(from)}) can't be compared with the current release ${name(current)}` };
  const what = `its rule "from" needs ${name(from)}, and the current release is ${name(current)}`;
  return { what, details: after === undefined ? [] : [`Release ${after} is activated first`] };
}

function rolloutWords({ turn, share, wariness, source, ...clock }: HoldData<'rule/rollout'>): Said {
  const cautious = [
    `The wariness of this node is ${Number(wariness.toPrecision(3))}`,
    ...(source === 'none'
      ? ['It is that of a node whose /etc/machine-id has no usable id: set update.rollout_wariness to another one']
      : []),
  ];
  if (turn === undefined)
    return {
      what: `its rule "rollout" is for ${share === 0 ? 'none' : percentText(share)} of the nodes, and this node is not one of them`,
      details: cautious,
      does: 'done-admin',
    };
  const what = `its rule "rollout" allows it on this node from ${timeText(turn)}`;
  return { what, details: [...doubt(clock), ...cautious] };
}

function windowWords({ opensAt, closesAt, timeZone, ...clock }: HoldData<'window'>): Said {
  if (opensAt === undefined) return { what: 'it waits for a window, and no window opens in the next weeks' };
  const end =
    closesAt === undefined
      ? 'The window has no end within weeks'
      : `The window closes on ${wallText(closesAt, timeZone)}`;
  return {
    what: `it waits for the next window, ${wallText(opensAt, timeZone)} (${timeZone})`,
    details: [end, ...doubt(clock)],
  };
}

function clockWords({ kind, least, hasWindow, hasRollout, hasEndOfLife }: HoldData<'clock'>): Said {
  const unjudged = [
    ...(hasWindow ? ['the windows of this node'] : []),
    ...(hasRollout ? ['the rollout of the release'] : []),
    ...(hasEndOfLife ? ['the end of life of the release'] : []),
  ];
  const until = `Until the clock is right, ${unjudged.join(' and ')} can't be judged`;
  if (kind === 'far-before-bundle') {
    return {
      what: `this node's synchronised clock is over 24 h behind a bundle made on ${timeText(least + CREATED_AHEAD_MS)}`,
      next: 'Check what the clock is synchronised with',
      details: ['The bundle is of the same stream, so one of the two clocks is wrong', until],
    };
  }
  const event = kind === 'before-build' ? 'stickpin was built' : 'A bundle of its stream was made';
  return {
    what: `the clock of this node is wrong: it shows a time before ${timeText(least)}`,
    next: 'Set the clock',
    details: [`${event} at that time`, until],
  };
}

function doubt({ isClockUnsure }: { readonly isClockUnsure: boolean }): readonly string[] {
  return isClockUnsure ? ["This node's clock is not synchronised"] : [];
}

function hookWords(data: HoldData<'hook'>): Said {
  const { unit } = data;
  switch (data.state) {
    case 'files':
      return { what: `hook before-activate (${unit}) waits for the attached files of the release` };
    case 'start':
      return { what: `hook before-activate (${unit}) must succeed first` };
    case 'end':
      return { what: `hook before-activate (${unit}) runs and must succeed first` };
    case 'retry': {
      const why = hookFailureText(unit, data.why);
      return {
        what: `hook before-activate failed ${data.attempts === 1 ? 'once' : `${data.attempts} times`}`,
        run: why.startsWith(unit) ? why : capital(why),
      };
    }
    default:
      return assertNever(data);
  }
}

import { formatCount, formatDuration } from '../../../platform/sizes.ts';
import type { ActivationHold } from '../../activation/gates.ts';
import type { Failure, Unavailable } from '../../fleet/roll-out.ts';
import type { HoldData, HoldEntries, Remedy } from '../entries.ts';
import { timeText } from '../texts/short-texts.ts';

export type FleetHoldCode = Extract<ActivationHold['code'], `fleet/${string}`>;

export const ANYWAY: Remedy = (release) => `to activate it anyway, run 'stickpin activate ${release}'`;

/** Ends the wait for a node, whatever that node does. */
export function removeText(node: string): string {
  return `If ${node} is gone or lies: 'stickpin fleet remove ${node}'`;
}

/** Holds that depend on other nodes. A single node may lie, so none of these calls support. */
export const FLEET_HOLDS: HoldEntries<FleetHoldCode> = {
  'fleet/unknown': {
    short: 'F-01',
    means: 'stickpin-fleet.service does not answer',
    says: () => ({
      what: 'stickpin-fleet.service does not answer',
      run: "See 'systemctl status stickpin-fleet'",
      details: ['Nothing is known of the other nodes'],
    }),
    remedy: () => "see 'systemctl status stickpin-fleet' and start it",
    needsPerson: true,
  },
  'fleet/reading': {
    short: 'F-33',
    means: 'The Nodes of the cluster are read first',
    says: ({ why }) => ({
      what: 'the Nodes of the cluster are read first',
      details: why === undefined ? [] : ['The order needs their labels', why],
    }),
    remedy: (release) => `they are read once the Kubernetes API answers; ${ANYWAY(release)}`,
    does: 'wait',
    isQuiet: true,
  },
  'fleet/labels': {
    short: 'F-41',
    means: 'The order needs labels of nodes, which nodes with keys do not have',
    says: () => ({
      what: 'its order needs labels of nodes, and nodes with fleet.auth = "keys" have none',
    }),
    remedy: (release) =>
      `use an order without labels and without the control plane, in the release or in fleet.order; ${ANYWAY(release)}`,
    does: 'wait',
    isForAdmin: true,
    needsPerson: true,
  },
  'fleet/nobody-known': {
    short: 'F-02',
    means: 'No other node is known',
    says: ({ waitMs, isFirst, isByKeys }) => ({
      what: 'no other node is known',
      details: [
        `${isByKeys === true ? 'The list of keys' : 'The Kubernetes API'} has not said that there is none`,
        `This node counts as alone once stickpin-fleet.service has searched for ${formatDuration(waitMs)}${isFirst ? '' : ', and the release has been ready for as long'}`,
      ],
      also: ["See 'stickpin fleet status'"],
    }),
  },
  'fleet/paused': {
    short: 'F-34',
    means: 'The roll-out of the release is paused',
    says: ({ id, node, by, why, until, passedOnBy, from }, { name }) => ({
      what: `its roll-out was paused on ${name(node)}${passedOnBy === undefined ? '' : `, as ${name(passedOnBy)} says,`} until ${timeText(until)}`,
      run: `'stickpin fleet resume ${id}' there ends the pause`,
      details: [`It was paused by ${by}: ${why}`],
      also: from === undefined ? [] : [removeText(from)],
    }),
    does: 'wait',
    remedy: (release) =>
      `to end the pause, run 'stickpin fleet resume' with its id on that node or on one of the control plane; ${ANYWAY(release)}`,
  },
  'fleet/failed': {
    short: 'F-03',
    means: 'Another node failed with the release',
    says: (data, { name }) => ({
      what: FAILURES[data.why](name(data.node)),
      run: removeText(data.node),
      details: ['It is not activated on other nodes automatically', ...leftOut(data)],
    }),
    remedy: (release) =>
      `see 'stickpin history ${release}' on that node for the cause, and repair it; then plug in a newer release, or run 'stickpin activate ${release}'`,
    does: 'wait',
    isForAdmin: true,
    needsPerson: true,
  },
  'fleet/no-canary': {
    short: 'F-38',
    means: 'No node that takes part has the labels of the canaries',
    says: ({ selector, nodes }, { name }) => ({
      what: `no node that takes part has the label ${name(selector)}, which chooses its canaries`,
      details: nodes === '' ? [] : [`These nodes are left out: ${nodes}`],
    }),
    remedy: (release) =>
      `uncordon or repair a node with this label, or label another one; 'stickpin fleet remove' takes out one that is lost; ${ANYWAY(release)}`,
    does: 'wait',
    isForAdmin: true,
    needsPerson: true,
  },
  'fleet/not-ready': {
    short: 'F-04',
    means: 'Other nodes load the release first',
    says: (data, { name }) => ({
      what: `it waits for ${name(data.node)}${data.more === 0 ? '' : ` and ${formatCount(data.more, 'other node')}`} to load it`,
      run: removed(data),
      details: [`Node ${data.node} ${loadText(data)}`, 'All nodes load it first', ...leftOut(data)],
    }),
  },
  'fleet/order': {
    short: 'F-05',
    means: 'Other nodes activate the release first',
    says: (data, { name }) => ({
      what:
        data.phase === 'activated'
          ? `it waits for containers of ${name(data.node)} to run from it`
          : `it waits for ${name(data.node)} to activate it`,
      run: removed(data),
      details: [
        'Nodes activate it in the order of the cluster',
        ...(data.reason === undefined ? [] : [`Node ${data.node} says ${data.reason}`]),
        ...leftOut(data),
      ],
    }),
  },
  'fleet/soak': {
    short: 'F-31',
    means: 'A canary has to run the release for longer',
    says: (data, { name }) => ({
      what: `it waits until canary ${name(data.node)} has run it well for ${formatDuration(data.forMs)}`,
      run: removed(data),
      details: ['Where containers show it, the canary has to prove it too', ...leftOut(data)],
    }),
  },
  'fleet/settle': {
    short: 'F-36',
    means: 'Another node has to run the release well for longer',
    says: (data, { name }) => ({
      what: `it waits until ${name(data.node)} has run it ${data.isByKeys === true ? 'well' : 'and has been Ready'} for ${formatDuration(data.forMs)}`,
      run: removed(data),
      details: leftOut(data),
    }),
  },
  'fleet/unavailable': {
    short: 'F-37',
    means: 'Other nodes are unavailable',
    says: (data, { name }) => ({
      what: `it waits, since ${name(data.node)} ${UNAVAILABLE[data.why]}`,
      run: data.why === 'not-ready' || data.why === 'silent' ? removeText(data.node) : removed(data),
      details: [`No more than ${formatCount(data.most, 'node')} may be unavailable at once`, ...leftOut(data)],
    }),
    remedy: (release) => `repair that node; ${ANYWAY(release)}`,
    does: 'wait',
  },
  'fleet/cordoned': {
    short: 'F-32',
    means: 'The Node is cordoned, so the order leaves it out',
    says: ({ node }, { name }) => ({
      what: `Node ${name(node)} is cordoned`,
      next: 'An administrator uncordons it',
      details: ['The other nodes do not wait for it'],
    }),
    remedy: (release) => `run 'kubectl uncordon' for this node when its maintenance is over; ${ANYWAY(release)}`,
    does: 'wait',
    isForAdmin: true,
    needsPerson: true,
  },
  'fleet/lock': {
    short: 'F-35',
    means: 'The activation waits for a lock of the FleetLock server',
    says: ({ server, why, isUnknown }, { name }) => ({
      what: `it waits for the lock of ${name(server)}${why === undefined ? '' : `: ${name(why)}`}`,
      details: isUnknown ? ['stickpin-fleet.service does not answer'] : [],
    }),
    remedy: (release) => `see 'systemctl status stickpin-fleet' and the FleetLock server; ${ANYWAY(release)}`,
    does: 'wait',
  },
};

function loadText({ phase, percent, reason, isUnknown }: HoldData<'fleet/not-ready'>): string {
  if (isUnknown) return 'has too many releases to say whether it has it';
  if (phase === undefined) return 'does not have it yet';
  if (percent !== undefined) return `has loaded ${percent} % of it`;
  return reason === undefined ? `has not loaded it yet (${phase})` : `does not load it (${phase}: ${reason})`;
}

const FAILURES: Readonly<Record<Failure, (node: string) => string>> = {
  'rolled-back': (node) => `it was rolled back on ${node}`,
  'not-ready': (node) => `${node} activated it and has not been Ready since`,
  silent: (node) => `${node} has been silent since it activated it`,
  degraded: (node) => `it is degraded on ${node}`,
};

const UNAVAILABLE: Readonly<Record<Unavailable, string>> = {
  'not-ready': 'is not Ready',
  silent: 'is silent',
  cordoned: 'is cordoned',
  between: 'activates it',
};

/** Only a person ends the wait for a node that is gone for good. */
function removed({ node, isAway }: { readonly node: string; readonly isAway?: true }): string | undefined {
  return isAway && removeText(node);
}

function leftOut({ absent, out }: { readonly absent?: string; readonly out?: string }): readonly string[] {
  return [
    ...(absent === undefined ? [] : [`Left out are silent nodes: ${absent}`]),
    ...(out === undefined ? [] : [`Left out are cordoned nodes: ${out}`]),
  ];
}

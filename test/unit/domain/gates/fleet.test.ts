import { describe, expect, it } from 'vitest';
import { fleet, lock, pausesAfter, rollOutState } from '../../../../src/domain/activation/fleet-gate.ts';
import { schedule } from '../../../../src/domain/activation/timing-gates.ts';
import type { FleetNode, FleetView, NodeFacts } from '../../../../src/domain/fleet/node-status.ts';
import { LONGEST_PAUSE_MS, newPause } from '../../../../src/domain/fleet/pause.ts';
import { NO_SIGHTINGS, sightingsAfter } from '../../../../src/domain/fleet/sightings.ts';
import { hexOf } from '../../../../src/domain/model/digest.ts';
import { BY_NAME, type ReleaseOrder } from '../../../../src/domain/model/roll-out-order.ts';
import type { VersionScheme } from '../../../../src/domain/model/version.ts';
import { holdMessage } from '../../../../src/domain/report/hold-text.ts';
import { NO_HOOKS } from '../../../../src/domain/state/hook.ts';
import { NOON, POLICY, stored, verified } from '../../../support/daemon/scenario.ts';

const bundle = stored(verified(), { readyAt: NOON });
/** Done is a node at once that runs the release. */
const SETTLED = { ...BY_NAME, settleMs: 0 };
const policy = { ...POLICY, fleet: { ...POLICY.fleet, enabled: true, order: SETTLED } };
const before = stored(verified({ version: '4.13.6', sequence: 6 }), { activatedAt: NOON });
const id = hexOf(bundle.bundleId).slice(0, 16);
const node = (name: string, release: object | undefined, isAbsent = false): FleetNode => ({
  name,
  isAbsent,
  status: {
    version: 1,
    releases: release ? [{ name: 'ocp', version: '4.13.7', bundle: id, phase: 'ready', ...release }] : [],
  },
});
const view = (...nodes: readonly FleetNode[]): FleetView => ({ self: 'worker-2', nodes, peers: [], readLabels: [] });
/** As the Kubernetes API shows its Node. */
const withFacts = (node: FleetNode, of: Partial<NodeFacts>): FleetNode => ({
  ...node,
  facts: { labels: {}, isReady: true, isCordoned: false, ...of },
});
const gate = (over: Partial<Parameters<typeof fleet>[0]>) =>
  fleet({
    ...{ bundle, bundles: [bundle], policy, now: NOON, clockSynchronised: true, fleet: view(), hooks: NO_HOOKS },
    ...over,
  });

function text(over: Partial<Parameters<typeof fleet>[0]>): string {
  const verdict = gate(over);
  return verdict.kind === 'pass' ? 'pass' : holdMessage(verdict.hold);
}

describe('the gate of the fleet', () => {
  it('passes where the fleet is off, where each node decides alone, and once a person asked', () => {
    const waiting = { fleet: view(node('worker-1', undefined)) };
    expect(text(waiting)).not.toBe('pass');
    expect(text({ ...waiting, policy: POLICY })).toBe('pass');
    expect(text({ ...waiting, policy: { ...policy, fleet: { ...policy.fleet, activate: 'each' } } })).toBe('pass');
    expect(text({ ...waiting, bundle: { ...bundle, activationRequestedAt: NOON } })).toBe('pass');
  });

  it('holds what a person paused and has not begun, also where each node decides alone', () => {
    const said = { name: 'ocp', node: 'worker-9', by: 'uid 0', why: 'no power', atMs: NOON, forMs: 3_600_000 };
    const each = { ...policy, fleet: { ...policy.fleet, activate: 'each' as const } };
    const paused = { pauses: [newPause(said)], policy: each };
    expect(text(paused)).toMatch(/^its roll-out was paused on worker-9 until .* by uid 0: no power/);
    expect(gate(paused)).toMatchObject({ hold: { releasedBy: 'time', checkAgainAt: NOON + 3_600_000 } });
    expect(text({ ...paused, fleet: undefined })).toContain('paused on worker-9');
    expect(text({ ...paused, now: NOON + 3_600_000 })).toBe('pass');
    expect(text({ ...paused, bundle: { ...bundle, activationRequestedAt: NOON } })).toBe('pass');
    expect(text({ ...paused, bundle: { ...bundle, activationBegunAt: NOON } })).toBe('pass');
    expect(text({ ...paused, policy: POLICY })).toBe('pass');
  });

  describe('after a rollback on this node', () => {
    const back = { ...bundle, activatedAt: NOON - 10, rolledBackAt: NOON - 5 };
    const known = (over: object = {}) =>
      pausesAfter({ bundles: [back], policy, now: NOON, clockSynchronised: true, fleet: view(), ...over });
    const state = (over: object, more: object = {}) =>
      rollOutState({
        ...{ policy, now: NOON, clockSynchronised: true, fleet: view(), absentImages: 0 },
        ...{ isDue: false, waits: false, pauses: [], bundles: [], ...more },
        bundle: { ...back, ...over },
      });

    it('pauses the roll-out once, also after a restart and a lift', () => {
      const pauses = known();
      expect(pauses).toMatchObject([{ name: 'ocp', version: '4.13.7', node: 'worker-2', by: 'a rollback' }]);
      expect(known({ pauses })).toBe(pauses);
      const lifted = pauses.map((one) => ({ ...one, lifted: { node: 'worker-1', by: 'uid 0' } }));
      expect(known({ pauses: lifted })).toBe(lifted);
      expect(known({ now: NOON + LONGEST_PAUSE_MS })).toEqual([]);
      expect(gate({ pauses })).toMatchObject({ hold: { code: 'fleet/paused', releasedBy: 'person' } });
    });

    it('lets the others go on where the settings say so, and where it is activated again', () => {
      const goOn = { ...policy, fleet: { ...policy.fleet, order: { ...SETTLED, onRollback: 'go-on' as const } } };
      expect(known({ policy: goOn })).toEqual([]);
      const signed = (order: ReleaseOrder) => [{ ...back, payload: { ...back.payload, update: { order } } }];
      expect(known({ policy: goOn, bundles: signed({}) })).toMatchObject([{ by: 'a rollback' }]);
      expect(known({ policy: goOn, bundles: signed({ onRollback: 'go-on' }) })).toEqual([]);
      expect(known({ bundles: signed({ onRollback: 'go-on' }) })).toEqual([]);
      const again = known({ pauses: known(), bundles: [{ ...back, activatedAt: NOON }] });
      expect(again).toMatchObject([{ lifted: { node: 'worker-2', by: 'an activation' } }]);
      expect(known({ pauses: known(), policy: goOn })).toMatchObject([
        { lifted: { node: 'worker-2', by: 'on_rollback = "go-on"' } },
      ]);
      expect(state({}, { policy: goOn })).toEqual({ back: true });
      expect(state({ activationRequestedAt: NOON }, { policy: goOn })).toBeUndefined();
      const other = { phase: 'activated', rolledBack: true, back: true };
      expect(text({ fleet: view(node('worker-1', other)) })).toBe('pass');
    });

    it('stops the others until its pause is lifted or ends, also those that do not know the pause', () => {
      const pauses = known();
      const lifted = pauses.map((one) => ({ ...one, lifted: { node: 'worker-1', by: 'uid 0' } }));
      expect(state({})).toBeUndefined();
      expect(state({}, { pauses })).toBeUndefined();
      expect(state({}, { pauses: lifted })).toEqual({ back: true });
      expect(state({}, { pauses, now: NOON + LONGEST_PAUSE_MS })).toEqual({ back: true });
      const fleet = view(node('worker-1', { phase: 'activated', rolledBack: true }));
      expect(text({ fleet })).toContain('was rolled back on');
      const said = { name: 'ocp', version: '4.13.7', node: 'worker-1', by: 'a rollback', why: 'rolled back' };
      const ofOther = newPause({ ...said, atMs: NOON - 10, forMs: LONGEST_PAUSE_MS });
      expect(text({ fleet, pauses: [{ ...ofOther, lifted: { node: 'worker-3', by: 'uid 0' } }] })).toBe('pass');
      expect(text({ fleet, pauses: [{ ...ofOther, node: 'worker-3' }] })).not.toBe('pass');
      // Another node made up the pause that was lifted.
      const madeUp = { ...ofOther, from: 'worker-5', lifted: { node: 'worker-3', by: 'uid 0' } };
      expect(text({ fleet, pauses: [madeUp] })).not.toBe('pass');
    });

    it('keeps its pause where the node decides alone, or the release is gone', () => {
      const pauses = known();
      const alone = { ...policy, fleet: { ...policy.fleet, activate: 'each' as const } };
      expect(known({ pauses, policy: alone })).toBe(pauses);
      expect(known({ pauses, bundles: [] })).toBe(pauses);
    });

    it('begins its pause once where the clock was ahead, and ends it', () => {
      const ahead = [{ ...back, rolledBackAt: NOON + 365 * 24 * 3_600_000 }];
      const pauses = known({ bundles: ahead });
      expect(gate({ pauses })).toMatchObject({ hold: { code: 'fleet/paused' } });
      expect(known({ bundles: ahead, pauses })).toBe(pauses);
      const later = NOON + LONGEST_PAUSE_MS;
      expect(known({ bundles: ahead, pauses, now: later })).toBe(pauses);
      expect(gate({ pauses, now: later })).toEqual({ kind: 'pass' });
    });
  });

  it('holds while nothing is known of the other nodes', () => {
    expect(text({ fleet: undefined })).toContain('stickpin-fleet.service does not answer');
  });

  it('holds until all Nodes are read anew, whatever they said before', () => {
    const fresh = view(node('worker-1', { phase: 'activated', current: true }));
    expect(text({ fleet: fresh })).toBe('pass');
    expect(text({ fleet: { ...fresh, isOld: true } })).toContain('the Nodes of the cluster are read first');
    const { readLabels: _, ...unread } = fresh;
    expect(text({ fleet: unread })).toContain('the Nodes of the cluster are read first');
    expect(text({ fleet: { ...unread, apiTrouble: 'No answer.' } })).toBe('pass');
  });

  it('holds an order by labels until these labels of all Nodes were read', () => {
    const order = { ...SETTLED, groups: ['zone=a'] };
    const labelled = { policy: { ...policy, fleet: { ...policy.fleet, order } } };
    const nodes = [withFacts(node('worker-2', {}), {}), withFacts(node('worker-3', {}), { labels: { zone: 'a' } })];
    const of = (more: Partial<FleetView>, known = nodes) =>
      text({ ...labelled, fleet: { ...view(...known), ...more } });
    expect(of({})).toContain('the Nodes of the cluster are read first');
    expect(of({ readLabels: ['zone'] })).toContain('it waits for worker-3 to activate it');
    expect(of({ readLabels: ['zone'], apiTrouble: 'No answer.' })).toContain('worker-3');
    const away = { ...view(node('worker-3', {})), apiTrouble: 'No answer.', search: 'long' as const };
    expect(text({ ...labelled, bundles: [before, bundle], fleet: away })).toContain(
      'the Nodes of the cluster are read first. The order needs their labels. No answer',
    );
  });

  it('goes by name at the first release of a stream, and alone, also where nobody reads the labels', () => {
    const order = { ...SETTLED, groups: ['zone=a'], controlPlane: 'last' as const };
    const labelled = { policy: { ...policy, fleet: { ...policy.fleet, order } } };
    const away = { apiTrouble: 'No answer.', search: 'long' as const };
    const first = (name: string) => text({ ...labelled, fleet: { ...view(node(name, {})), ...away } });
    expect(first('worker-1')).toContain('it waits for worker-1 to activate it');
    expect(first('worker-3')).toBe('pass');
    const alone = { ...labelled, bundles: [before, bundle], now: NOON + 3_600_000 };
    expect(text({ ...alone, fleet: { ...view(node('worker-2', {})), ...away } })).toBe('pass');
  });

  it('waits for a person where the order needs labels, and keys prove who the nodes are', () => {
    const order = { ...SETTLED, controlPlane: 'last' as const };
    const byKeys = { apiTrouble: 'It is not used.', keys: { isRead: true } };
    const { readLabels: _, ...unread } = view(node('worker-1', { phase: 'proven' }), node('worker-2', {}));
    const labelled = { policy: { ...policy, fleet: { ...policy.fleet, order } }, bundles: [before, bundle] };
    expect(gate({ ...labelled, fleet: { ...unread, ...byKeys } })).toMatchObject({ hold: { code: 'fleet/labels' } });
    expect(text({ ...labelled, fleet: { ...unread, ...byKeys } })).not.toMatch(/Kube|API/);
    expect(gate({ bundles: [before, bundle], fleet: { ...unread, ...byKeys } })).toMatchObject({
      hold: { code: 'fleet/order' },
    });
  });

  it('ends what has begun, also after a restart, whatever is known of the others', () => {
    const begun = { ...bundle, activationBegunAt: NOON };
    const fleet = view(node('worker-1', {}));
    expect(text({ fleet })).not.toBe('pass');
    expect(text({ fleet, bundle: begun })).toBe('pass');
    expect(text({ fleet: undefined, bundle: begun })).toBe('pass');
    expect(text({ fleet: { ...fleet, isOld: true }, bundle: begun })).toBe('pass');
  });

  it('says which label chooses canaries that are not there', () => {
    const canary = { nodes: 'spare', soakMs: 0 };
    const labelled = { policy: { ...policy, fleet: { ...policy.fleet, order: { ...SETTLED, canary } } } };
    const of = (...nodes: readonly FleetNode[]) =>
      text({ ...labelled, bundles: [before, bundle], fleet: { ...view(...nodes), readLabels: ['spare'] } });
    const words = 'no node that takes part has the label spare, which chooses its canaries';
    expect(of(withFacts(node('worker-1', {}), {}))).toBe(words);
    const cordoned = withFacts(node('worker-1', {}), { labels: { spare: '' }, isCordoned: true });
    expect(of(cordoned)).toBe(`${words}. These nodes are left out: worker-1`);
  });

  it('measures by the clock of this node how long another one runs the release', () => {
    const fleet = view(withFacts(node('worker-1', { phase: 'active', current: true, runs: true }), {}));
    const slow = { ...policy, fleet: { ...policy.fleet, order: BY_NAME } };
    const begun = sightingsAfter(NO_SIGHTINGS, fleet, 1_000);
    const at = (uptimeMs: number) =>
      gate({ fleet, policy: slow, bundles: [before, bundle], sightings: sightingsAfter(begun, fleet, uptimeMs) });
    expect(at(31_000)).toMatchObject({ hold: { code: 'fleet/settle', checkAgainAt: NOON + 90_000 } });
    expect(at(121_000)).toEqual({ kind: 'pass' });
    expect(gate({ fleet, policy: slow })).toMatchObject({ hold: { code: 'fleet/settle' } });
  });

  describe('of a node that knows no other one', () => {
    const hourMs = 3_600_000;
    const unsure = { fleet: { ...view(), apiTrouble: 'It was not asked yet.' }, bundles: [before, bundle] };

    const long = { ...unsure, fleet: { ...unsure.fleet, search: 'long' as const } };

    it('does not wait where the list of keys names no other node, unless it can not be read', () => {
      const byKeys = (isRead: boolean, more = {}) => ({
        ...unsure,
        fleet: { ...unsure.fleet, keys: { isRead, ...more } },
      });
      expect(text(byKeys(true))).toBe('pass');
      expect(text(byKeys(true, { trouble: 'both are host-1' }))).toContain('no other node is known');
      expect(text(byKeys(false))).toContain('The list of keys has not said that there is none');
    });

    it('waits until the Kubernetes API tells, a node is known, or an hour is over', () => {
      expect(gate(unsure)).toEqual({
        kind: 'hold',
        hold: {
          code: 'fleet/nobody-known',
          data: { waitMs: hourMs, isFirst: false },
          releasedBy: 'event',
          checkAgainAt: NOON + hourMs,
        },
      });
      expect(text(unsure)).toBe(
        "no other node is known. The Kubernetes API has not said that there is none. This node counts as alone once stickpin-fleet.service has searched for 1 h, and the release has been ready for as long. See 'stickpin fleet status'",
      );
      expect(text({ ...unsure, fleet: view() })).toBe('pass');
      expect(text({ ...unsure, fleet: { ...unsure.fleet, nodes: [node('worker-1', {})] } })).toContain('worker-1');
      expect(text({ ...long, now: NOON + hourMs - 1 })).not.toBe('pass');
      expect(text({ ...long, now: NOON + hourMs })).toBe('pass');
    });

    it.each(['new', 'short'] as const)('waits after a restart, however long the release is ready: %s', (search) => {
      const restarted = { ...unsure, fleet: { ...unsure.fleet, search }, now: NOON + 10 * hourMs };
      expect(gate(restarted)).toMatchObject({ kind: 'hold', hold: { code: 'fleet/nobody-known' } });
      expect(gate(restarted)).not.toHaveProperty('hold.checkAgainAt');
    });

    it('waits for fleet.absent, and before the release is ready without an end', () => {
      const short = { ...policy, fleet: { ...policy.fleet, absent: 60_000 } };
      expect(text({ ...long, policy: short, now: NOON + 60_000 })).toBe('pass');
      const unready = gate({ ...long, bundle: stored(verified()) });
      expect(unready).toMatchObject({ kind: 'hold', hold: { code: 'fleet/nobody-known' } });
      expect(unready).not.toHaveProperty('hold.checkAgainAt');
    });

    it('waits by a clock that was set back', () => {
      expect(text({ ...long, now: NOON - 1 })).not.toBe('pass');
    });

    it('lets the API answer before the first release of a stream, and does not wait longer', () => {
      const other = stored(verified({ name: 'edge', version: '1.0.0' }), { activatedAt: NOON });
      const never = stored(verified({ version: '4.13.6', sequence: 6 }));
      for (const bundles of [[bundle], [other, bundle], [never, bundle]]) {
        expect(text({ ...unsure, bundles })).toMatch(/stickpin-fleet\.service has searched for 1 min\. See/);
        expect(text({ ...unsure, bundles, fleet: { ...unsure.fleet, search: 'short' } })).toBe('pass');
      }
    });

    it('knows the own node', () => {
      expect(text({ ...unsure, fleet: { ...unsure.fleet, nodes: [node('worker-2', {})] } })).toContain('no other node');
    });
  });

  it.each<[string, readonly FleetNode[]]>([
    [
      'it waits for worker-1 to load it. Node worker-1 does not have it yet. All nodes load it first',
      [node('worker-1', undefined)],
    ],
    [
      'it waits for worker-3 and 1 other node to load it. Node worker-3 has loaded 40 % of it. All nodes load it first',
      [node('worker-3', { phase: 'preloading', percent: 40 }), node('worker-4', undefined)],
    ],
    [
      'it waits for worker-3 to load it. Node worker-3 does not load it (held: engine/space). All nodes load it first',
      [node('worker-3', { phase: 'held', reason: 'engine/space' })],
    ],
    [
      'it waits for worker-3 to load it. Node worker-3 has too many releases to say whether it has it. All nodes load it first',
      [{ name: 'worker-3', isAbsent: false, status: { version: 1, releases: [], more: 2 } }],
    ],
    [
      'it waits for worker-1 to activate it. Nodes activate it in the order of the cluster. Left out are silent nodes: worker-9',
      [node('worker-1', {}), node('worker-9', undefined, true)],
    ],
    [
      "it waits, since worker-3 is not Ready. No more than 1 node may be unavailable at once. Left out are cordoned nodes: worker-4. If worker-3 is gone or lies: 'stickpin fleet remove worker-3'",
      [
        withFacts(node('worker-2', {}), {}),
        withFacts(node('worker-3', {}), { isReady: false }),
        withFacts(node('worker-4', {}), { isCordoned: true }),
      ],
    ],
    [
      'it waits for containers of worker-1 to run from it. Nodes activate it in the order of the cluster',
      [node('worker-1', { phase: 'activated', runs: false })],
    ],
    [
      "it was rolled back on worker-3. It is not activated on other nodes automatically. If worker-3 is gone or lies: 'stickpin fleet remove worker-3'",
      [node('worker-1', {}), node('worker-3', { phase: 'activated', rolledBack: true })],
    ],
  ])('says: %s', (words, nodes) => {
    expect(text({ fleet: view(...nodes) })).toBe(words);
  });

  it('says who ends the wait for a node that does not answer, and whose Node nobody can look up', () => {
    const others = view(node('worker-1', undefined), node('worker-2', {}));
    const away = { ...others, apiTrouble: 'connect ECONNREFUSED' };
    const command = "If worker-1 is gone or lies: 'stickpin fleet remove worker-1'";
    expect(text({ fleet: others })).not.toContain(command);
    expect(text({ fleet: away })).toContain(command);
    const answers = { name: 'worker-1', address: '10.0.0.1:9777', bundles: [] };
    expect(text({ fleet: { ...away, peers: [answers] } })).not.toContain(command);
    expect(text({ fleet: { ...away, peers: [{ ...answers, trouble: 'no route to host' }] } })).toContain(command);
    const silent = view({ ...node('worker-1', undefined), isSilent: true }, node('worker-2', {}));
    expect(text({ fleet: silent })).toContain(command);
  });

  it.each<[string, string, string, VersionScheme?]>([
    ['SemVer', '4.13.7', '4.13.8'],
    ['tags, as the bundle says', '2.6.2-rev1', '2.6.2-rev2', 'three-tag'],
    ['tags, as its version shows', '2.6.2-rev1', '2.6.2-rev2'],
    ['tags, as the version of the other node shows', '2.6.2', '2.6.2-rev2'],
  ])('does not wait for a node that has a later release: %s', (_what, version, later, versionScheme) => {
    const release = stored(verified({ version, ...(versionScheme && { versionScheme }) }), { readyAt: NOON });
    const running = { name: 'ocp', version: later, bundle: 'c'.repeat(16), phase: 'proven', current: true } as const;
    const past = { name: 'worker-1', isAbsent: false, status: { version: 1, releases: [running] } } as const;
    expect(text({ bundle: release, bundles: [release], fleet: view(past) })).toBe('pass');
  });

  it('orders versions by the scheme that the first release of the stream has settled', () => {
    const settled = stored(verified({ version: '2.6.1', sequence: 6, versionScheme: 'three-tag' }));
    const release = stored(verified({ version: '2.6.2' }), { readyAt: NOON });
    const running = {
      name: 'ocp',
      version: '2.7.0+x',
      bundle: 'c'.repeat(16),
      phase: 'proven',
      current: true,
    } as const;
    const other = { name: 'worker-1', isAbsent: false, status: { version: 1, releases: [running] } } as const;
    expect(text({ bundle: release, bundles: [release], fleet: view(other) })).toBe('pass');
    expect(text({ bundle: release, bundles: [settled, release], fleet: view(other) })).toContain('worker-1');
  });

  it('keeps the order with an allowed downgrade', () => {
    const later = stored(verified({ version: '4.14.0', sequence: 6 }), { activatedAt: NOON - 1 });
    const running = { name: 'ocp', version: '4.14.0', bundle: 'c'.repeat(16), phase: 'proven', current: true } as const;
    const first = { name: 'worker-1', isAbsent: false, status: { version: 1, releases: [running] } } as const;
    expect(text({ fleet: view(first) })).toBe('pass');
    expect(text({ fleet: view(first), bundles: [later, bundle] })).toContain('worker-1 does not have it yet');
  });

  it('reports where each node is, from the node that waits, and by name from one that has activated it', () => {
    const boundary = { policy, now: NOON, clockSynchronised: true, absentImages: 0, isDue: false };
    const active = withFacts(node('worker-1', { phase: 'active', current: true, runs: true }), {});
    const slow = { ...policy, fleet: { ...policy.fleet, order: BY_NAME } };
    const fleet = view(active, withFacts(node('worker-2', {}), {}), withFacts(node('worker-3', {}), {}));
    const sightings = sightingsAfter(NO_SIGHTINGS, fleet, 0);
    const bundles = [before, bundle];
    const waiting = rollOutState({ ...boundary, policy: slow, bundle, bundles, fleet, sightings, waits: true });
    const until = new Date(NOON + 120_000).toISOString();
    expect(waiting?.progress).toEqual({
      total: 3,
      done: 0,
      leads: true,
      places: [
        { place: 1, node: 'worker-1', state: 'settles', until },
        { place: 2, node: 'worker-2', state: 'waits' },
        { place: 3, node: 'worker-3', state: 'waits' },
      ],
    });
    const done = { ...bundle, activatedAt: NOON + 1 };
    const own = withFacts(node('worker-2', { phase: 'proven', current: true, runs: true }), {});
    const seenBy = (other: FleetNode) =>
      rollOutState({ ...boundary, bundle: done, bundles: [before, done], fleet: view(own, other), waits: false });
    expect(seenBy(node('worker-3', {}))?.progress).toMatchObject({ total: 2, done: 1 });
    expect(seenBy(node('worker-3', {}))?.progress).not.toHaveProperty('leads');
    expect(seenBy(node('worker-3', { phase: 'proven', current: true, runs: true }))).toBeUndefined();
  });

  it('leaves the activation to a person with "manual"', () => {
    const manual = { ...policy, fleet: { ...policy.fleet, activate: 'manual' as const } };
    const verdict = schedule({ bundle, policy: manual });
    expect(verdict).toMatchObject({ kind: 'hold', hold: { code: 'engine/manual', data: { by: 'fleet' } } });
    expect(schedule({ bundle, policy })).toEqual({ kind: 'pass' });
  });

  it('holds a cordoned node, unless its hook before the activation may have cordoned it', () => {
    const self = withFacts(node('worker-2', undefined), { isCordoned: true });
    const cordoned = { fleet: view(self, node('worker-1', {})) };
    expect(text(cordoned)).toBe(
      'Node worker-2 is cordoned. The other nodes do not wait for it. An administrator uncordons it',
    );
    const unit = 'drain.service';
    const run = { hook: 'before-activate', unit, bundleId: bundle.bundleId, event: 0 } as const;
    const hooked = { ...policy, hooks: { ...policy.hooks, 'before-activate': unit } };
    const begun = { ...cordoned, policy: hooked, hooks: { ...NO_HOOKS, running: [{ ...run, startedAt: NOON }] } };
    expect(text(begun)).toBe('pass');
    // After a restart of the daemon nothing is known of the hook any more.
    const restarted = { ...begun, hooks: NO_HOOKS };
    expect(text(restarted)).toContain('it waits for worker-1 to activate it');
    const done = node('worker-1', { phase: 'activated', current: true });
    expect(text({ ...restarted, fleet: view(self, done) })).toBe('pass');
  });

  describe('with an order that is signed with the release', () => {
    const order = { controlPlane: 'last', canary: { nodes: 1, soakMinutes: 5 } } as const;
    const signed = { ...bundle, payload: { ...bundle.payload, update: { order } } };
    const each = { ...policy, fleet: { ...policy.fleet, activate: 'each' as const } };
    const master = { 'node-role.kubernetes.io/control-plane': '' };
    const inOrder = { bundle: signed, bundles: [signed], policy: each };

    const readLabels = Object.keys(master);

    it('follows it also where each node decides alone', () => {
      const other = withFacts(node('worker-3', { phase: 'ready' }), {});
      const own = (labels: NodeFacts['labels']) => withFacts(node('worker-2', {}), { labels });
      const fleet = (labels: NodeFacts['labels']) => ({ ...view(own(labels), other), readLabels });
      expect(text({ ...inOrder, fleet: fleet(master) })).toContain('it waits for worker-3 to activate it');
      expect(text({ ...inOrder, policy: POLICY, fleet: fleet(master) })).toBe('pass');
    });

    it('waits for the soak that is longer, of the release or of the node', () => {
      const proven = withFacts(node('worker-1', { phase: 'proven', current: true, runs: true }), {});
      const self = withFacts(node('worker-2', {}), { labels: master });
      const fleet = { ...view(proven, self), readLabels };
      const own = { ...each, fleet: { ...each.fleet, order: { ...BY_NAME, canary: { nodes: 9, soakMs: 3_600_000 } } } };
      const later = { ...inOrder, bundles: [before, signed] };
      expect(text({ ...later, fleet })).toContain('it waits until canary worker-1 has run it well for 5 min');
      expect(text({ ...later, policy: own, fleet })).toContain('for 1 h');
    });

    it('reports when it has begun, what shows that it runs, and the labels that it needs', () => {
      const state = (over: object, more: object = {}) =>
        rollOutState({
          ...{ policy: each, fleet: view(), now: NOON, absentImages: 0, clockSynchronised: true },
          ...{ isDue: false, waits: false, bundles: [], ...more },
          bundle: { ...signed, ...over },
        });
      expect(state({})).toBeUndefined();
      expect(state({}, { isDue: true })).toEqual({ begun: true });
      expect(state({}, { waits: true })).toEqual({ reads: Object.keys(master) });
      expect(state({}, { waits: true, absentImages: 1 })).toBeUndefined();
      const component = { component: 'x', counts: true, runs: [], failed: ['c1'], startedAt: 0, disturbedMs: 7 };
      const soak = { activatedAt: NOON, bootId: 'now', components: [component] };
      expect(state({ activatedAt: NOON, soak })).toEqual({ disturbedMs: 7, fails: true });
      expect(state({ activatedAt: NOON + 1, soak })).toBeUndefined();
    });
  });
});

describe('the lock for reboots', () => {
  const update = { ...POLICY.update, fleet_lock: 'https://someone:secret@locks.example.com:8443/base' };
  const locked = { ...policy, update };
  const lockText = (over: Partial<Parameters<typeof lock>[0]>) => {
    const verdict = lock({ bundle, policy: locked, fleet: view(), ...over });
    return verdict.kind === 'pass' ? 'pass' : holdMessage(verdict.hold);
  };
  const refused = { isHeld: false, why: 'all slots are locked (full)' };

  it('holds an activation, and shows the server without a password', () => {
    expect(lockText({})).toBe('it waits for the lock of locks.example.com:8443');
    expect(lockText({ fleet: { ...view(), lock: refused } })).toBe(
      'it waits for the lock of locks.example.com:8443: all slots are locked (full)',
    );
    expect(lockText({ fleet: undefined })).toContain('stickpin-fleet.service does not answer');
  });

  it('passes with the lock, without the setting, once it has begun, and once a person asked', () => {
    expect(lockText({ fleet: { ...view(), lock: { isHeld: true } } })).toBe('pass');
    expect(lockText({ policy })).toBe('pass');
    expect(lockText({ bundle: { ...bundle, activationBegunAt: NOON } })).toBe('pass');
    expect(lockText({ bundle: { ...bundle, activationRequestedAt: NOON } })).toBe('pass');
  });

  it('is requested of a node that activates alone, too: it has begun', () => {
    const each = { ...locked, fleet: { ...locked.fleet, activate: 'each' as const } };
    const state = (of: typeof locked, isDue: boolean) =>
      rollOutState({
        ...{ bundle, policy: of, fleet: view(), now: NOON, clockSynchronised: true, absentImages: 0 },
        ...{ isDue, waits: false, bundles: [] },
      });
    expect(state(each, true)).toEqual({ begun: true });
    expect(state(each, false)).toBeUndefined();
    expect(state({ ...each, update: POLICY.update }, true)).toBeUndefined();
  });
});

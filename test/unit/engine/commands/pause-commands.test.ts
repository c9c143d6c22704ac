import { describe, expect, it } from 'vitest';
import type { FleetView } from '../../../../src/domain/fleet/node-status.ts';
import { newPause } from '../../../../src/domain/fleet/pause.ts';
import type { CommandContext } from '../../../../src/engine/commands/command-context.ts';
import { pauseRollOut, resumeRollOut } from '../../../../src/engine/commands/pause-commands.ts';
import { nodeStatusOf } from '../../../../src/fleet/publish/node-status.ts';
import { reasonOf } from '../../../../src/platform/app-error.ts';
import { defined } from '../../../../src/platform/defined.ts';
import { POLICY } from '../../../support/daemon/scenario.ts';
import { fakeContext } from '../../../support/fake-ports.ts';
import { ownReport } from '../../../support/kubernetes/own-report.ts';

const RELEASES = [{ name: 'ocp', version: '4.13.7', bundle: 'a'.repeat(16), phase: 'ready' as const }];
const NODES = ['n1', 'n2'].map((name) => ({
  name,
  isAbsent: false,
  status: { version: 1 as const, releases: RELEASES },
}));
const ON_CONTROL_PLANE = { facts: { labels: { 'node-role.kubernetes.io/control-plane': '' } } };

interface Place {
  readonly isEnabled?: boolean;
  readonly isRemoved?: true;
  readonly isControlPlane?: boolean;
  readonly keys?: FleetView['keys'];
}

function contextWith({ isEnabled = true, isRemoved, isControlPlane = false, keys }: Place = {}): CommandContext {
  const policy = { ...POLICY, fleet: { ...POLICY.fleet, enabled: isEnabled } };
  const nodes = NODES.map((node) => (isControlPlane && node.name === 'n1' ? { ...node, ...ON_CONTROL_PLANE } : node));
  const view: FleetView = defined({ self: 'n1', nodes, peers: [], isRemoved, keys });
  const ports = fakeContext({ policy, fleet: { view: () => view, onChange: () => () => undefined } });
  return { ports, recorder: ports.recorder, by: 'uid 1000: pauseRollOut' } as unknown as CommandContext;
}

const asked = { release: 'ocp@4.13.7', why: 'no power', seconds: 0 };
const refused = (code: string, text = '') =>
  expect.objectContaining({ code, disposition: 'reject', message: expect.stringContaining(text) });
const saidOn = (node: string, from: string, why = 'x') => ({
  ...newPause({ name: 'ocp', node, by: 'uid 0', why, atMs: 0, forMs: 3_600_000 }),
  from,
  heard: { at: new Date(0).toISOString(), clockSynchronised: true },
});
const history = (context: CommandContext) => context.ports.store.events(undefined, 20).map(({ message }) => message);

function messageOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    return reasonOf(error);
  }
  return '';
}

describe('the commands for pauses', () => {
  it('record who paused what and why, and who lifted it by its id', () => {
    const context = contextWith();
    const message = pauseRollOut(context, asked);
    const [pause] = context.ports.store.load().pauses ?? [];
    expect(pause).toMatchObject({ name: 'ocp', version: '4.13.7', node: 'n1', by: 'uid 1000', why: 'no power' });
    expect(Date.parse(pause?.until ?? '') - Date.parse(pause?.at ?? '')).toBe(4 * 3_600_000);
    expect(message).toContain('ocp 4.13.7 (ocp@4.13.7 on 2 nodes) is paused');
    expect(message).toContain(`stickpin fleet resume ${pause?.id}`);
    expect(resumeRollOut(context, pause?.id ?? '')).toContain('goes on');
    expect(context.ports.store.load().pauses).toMatchObject([
      { id: pause?.id, lifted: { node: 'n1', by: 'uid 1000' } },
    ]);
    expect(resumeRollOut(context, pause?.id ?? '')).toContain('was lifted before, by uid 1000 on n1');
    const kinds = context.ports.store.events(undefined, 10).map(({ kind }) => kind);
    expect(kinds.slice(-2)).toEqual(['rollOutPaused', 'rollOutResumed']);
    expect(history(context).slice(-2)).toEqual([
      expect.stringContaining(`by uid 1000 on n1: no power (${pause?.id})`),
      expect.stringMatching(/\(uid 1000 on n1: no power\) is lifted by uid 1000 on n1$/),
    ]);
  });

  it.each(['nosuch', 'ocp@9.9.9'])('pause nothing where no node has %s, and name what is known', (release) => {
    const context = contextWith();
    expect(() => pauseRollOut(context, { ...asked, release })).toThrow(
      refused('engine/no-release', 'so nothing is paused; known are ocp@4.13.7'),
    );
    expect(context.ports.store.load().pauses ?? []).toEqual([]);
  });

  it('refuse on a node that was removed, to which no other one listens', () => {
    const context = contextWith({ isRemoved: true });
    for (const run of [() => pauseRollOut(context, asked), () => resumeRollOut(context, 'all')]) {
      expect(run).toThrow(refused('engine/no-fleet', 'removed from the cluster'));
    }
  });

  it('speak of no control plane where keys prove who the nodes are', () => {
    const keys = { isRead: true };
    const context = contextWith({ keys });
    const other = saidOn('n2', 'n2');
    const texts = [
      pauseRollOut(context, asked),
      messageOf(() => {
        context.ports.store.setPauses([other]);
        resumeRollOut(context, other.id);
      }),
      messageOf(() => pauseRollOut(contextWith({ keys, isRemoved: true }), asked)),
    ];
    expect(texts).toEqual([
      expect.stringMatching(/on this node ends the pause\.$/),
      expect.stringContaining('counts only on that node; '),
      expect.stringContaining('do not listen to it: fleet.exclude names it. Run this'),
    ]);
  });

  it('cut what is longer than a week, and refuse what can not be', () => {
    const context = contextWith();
    pauseRollOut(context, { ...asked, seconds: 2_000_000_000 });
    const [pause] = context.ports.store.load().pauses ?? [];
    expect(Date.parse(pause?.until ?? '') - Date.parse(pause?.at ?? '')).toBe(7 * 24 * 3_600_000);
    expect(() => pauseRollOut(context, { ...asked, release: '../x' })).toThrow(refused('engine/no-release'));
    expect(() => pauseRollOut(context, { ...asked, why: 'x'.repeat(101) })).toThrow(refused('engine/no-pause'));
    expect(() => resumeRollOut(context, 'no')).toThrow(refused('engine/no-pause'));
    expect(() => resumeRollOut(contextWith(), 'all')).toThrow(refused('engine/no-pause', 'no pause that lasts'));
    expect(() => pauseRollOut(contextWith({ isEnabled: false }), asked)).toThrow(refused('engine/no-fleet'));
    for (let more = 1; more < 8; more += 1) pauseRollOut(context, { ...asked, why: `${more}` });
    expect(() => pauseRollOut(context, asked)).toThrow(refused('engine/no-pause', '8 pauses'));
  });

  it('lift what was said on this node, and elsewhere say where a lift counts', () => {
    const context = contextWith();
    const [other, mine] = [saidOn('n2', 'n2'), saidOn('n1', 'n2')];
    context.ports.store.setPauses([other, mine]);
    expect(() => resumeRollOut(context, other.id)).toThrow(
      refused(
        'engine/no-pause',
        `A lift of ${other.id} (uid 0 on n2) counts only on that node or on one of the control plane`,
      ),
    );
    expect(context.ports.store.load().pauses).toEqual([other, mine]);
    const message = resumeRollOut(context, 'all');
    expect(message).toContain(`pause ${mine.id} is lifted (uid 0 on n1, as n2 says: x)`);
    expect(message).toContain(`A lift of ${other.id} (uid 0 on n2) counts only`);
    expect(context.ports.store.load().pauses).toEqual([other, { ...mine, lifted: { node: 'n1', by: 'uid 1000' } }]);
  });

  it('lift all pauses on a node of the control plane, each with a line in the history', () => {
    const context = contextWith({ isControlPlane: true });
    const all = [saidOn('n2', 'n2'), saidOn('n3', 'n2'), saidOn('n2', 'n2', 'y')];
    context.ports.store.setPauses(all);
    const message = resumeRollOut(context, 'all');
    for (const { id } of all) expect(message).toContain(`pause ${id} is lifted`);
    expect(context.ports.store.load().pauses?.map(({ lifted }) => lifted?.node)).toEqual(['n1', 'n1', 'n1']);
    expect(history(context).slice(-3)).toEqual([
      expect.stringContaining('(uid 0 on n2: x) is lifted by uid 1000 on n1'),
      expect.stringContaining('(uid 0 on n3, as n2 says: x) is lifted by uid 1000 on n1'),
      expect.stringContaining('(uid 0 on n2: y) is lifted by uid 1000 on n1'),
    ]);
  });

  it('put a pause before those of others, of which a node sends 64 that their nodes said themselves', () => {
    const context = contextWith();
    const heard = Array.from({ length: 64 }, (_, at) => saidOn(`x${at}`, `x${at}`));
    context.ports.store.setPauses([saidOn('n3', 'n2'), ...heard]);
    pauseRollOut(context, asked);
    const { pauses = [] } = nodeStatusOf(ownReport([], { pauses: [...(context.ports.store.load().pauses ?? [])] }));
    expect([pauses.length, pauses[0]?.node]).toEqual([64, 'n1']);
    expect(pauses.filter((one) => 'from' in one || 'heard' in one || one.node === 'n3')).toEqual([]);
  });
});

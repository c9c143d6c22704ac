import { describe, expect, it } from 'vitest';
import { newPause } from '../../../../src/domain/fleet/pause.ts';
import type { CommandContext } from '../../../../src/engine/commands/command-context.ts';
import { pauseCommands } from '../../../../src/engine/commands/pause-commands.ts';
import { nodeStatusOf } from '../../../../src/fleet/publish/node-status.ts';
import { POLICY } from '../../../support/daemon/scenario.ts';
import { fakeContext } from '../../../support/fake-ports.ts';
import { ownReport } from '../../../support/kubernetes/own-report.ts';

const view = { self: 'n1', nodes: [], peers: [] };

function contextWith(isEnabled = true): CommandContext {
  const policy = { ...POLICY, fleet: { ...POLICY.fleet, enabled: isEnabled } };
  const context = fakeContext({ policy, fleet: { view: () => view, onChange: () => () => undefined } });
  return { ...context, by: 'uid 1000: pauseRollOut' } as unknown as CommandContext;
}

const { pauseRollOut, resumeRollOut } = pauseCommands;
const asked = { release: 'ocp@4.13.7', why: 'no power', seconds: 0 };

describe('the commands for pauses', () => {
  it('record who paused what and why, and who lifted it by its id', () => {
    const context = contextWith();
    const message = pauseRollOut(context, asked);
    const [pause] = context.store.load().pauses ?? [];
    expect(pause).toMatchObject({ name: 'ocp', version: '4.13.7', node: 'n1', by: 'uid 1000', why: 'no power' });
    expect(Date.parse(pause?.until ?? '') - Date.parse(pause?.at ?? '')).toBe(4 * 3_600_000);
    expect(message).toContain(`stickpin fleet resume ${pause?.id}`);
    expect(resumeRollOut(context, { id: pause?.id ?? '' })).toContain('goes on');
    expect(context.store.load().pauses).toMatchObject([{ id: pause?.id, lifted: { node: 'n1', by: 'uid 1000' } }]);
    const kinds = context.store.events(undefined, 10).map(({ kind }) => kind);
    expect(kinds.slice(-2)).toEqual(['rollOutPaused', 'rollOutResumed']);
  });

  it('cut what is longer than a week, and refuse what can not be', () => {
    const context = contextWith();
    pauseRollOut(context, { ...asked, seconds: 2_000_000_000 });
    const [pause] = context.store.load().pauses ?? [];
    expect(Date.parse(pause?.until ?? '') - Date.parse(pause?.at ?? '')).toBe(7 * 24 * 3_600_000);
    const refused = (code: string) => expect.objectContaining({ code, disposition: 'reject' });
    expect(() => pauseRollOut(context, { ...asked, release: '../x' })).toThrow(refused('engine/no-release'));
    expect(() => pauseRollOut(context, { ...asked, why: 'x'.repeat(101) })).toThrow(refused('engine/no-pause'));
    expect(() => resumeRollOut(context, { id: 'no' })).toThrow(refused('engine/no-pause'));
    expect(() => pauseRollOut(contextWith(false), asked)).toThrow(refused('engine/no-fleet'));
    const more = Array.from({ length: 15 }, (_, at) => ({ ...asked, why: `${at}` }));
    for (const one of more) pauseRollOut(context, one);
    expect(() => pauseRollOut(context, asked)).toThrow(refused('engine/no-pause'));
  });

  it('put a pause before those of others, of which a node sends 64', () => {
    const context = contextWith();
    const heard = Array.from({ length: 64 }, (_, at) =>
      newPause({ name: 'ocp', node: `x${at}`, by: 'uid 0', why: 'x', atMs: 0, forMs: 3_600_000 }),
    ).map((one) => ({ ...one, from: 'n2', heard: { at: one.at, clockSynchronised: true } }));
    context.store.setPauses(heard);
    pauseRollOut(context, asked);
    const { pauses = [] } = nodeStatusOf(ownReport([], { pauses: [...(context.store.load().pauses ?? [])] }));
    expect([pauses.length, pauses[0]?.node]).toEqual([64, 'n1']);
    expect(pauses.filter((one) => 'from' in one || 'heard' in one)).toEqual([]);
  });
});

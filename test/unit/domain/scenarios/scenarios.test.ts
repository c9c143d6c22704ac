import { describe, expect, it } from 'vitest';
import { POLICY } from '../../../support/daemon/scenario.ts';
import { SCENARIOS } from '../../../support/daemon/scenarios/all.ts';
import { mirrorsOf } from '../../../support/daemon/scenarios/mirrors-of.ts';
import { createModelStage } from '../../../support/daemon/scenarios/model-stage.ts';
import type { Scenario } from '../../../support/daemon/scenarios/table.ts';

/**
 * The tables over `decide()`, with a virtual clock: every effect, in order.
 * test/integration/daemon/release/scenarios.test.ts plays them over the daemon.
 */
async function play(scenario: Scenario): Promise<void> {
  const stage = createModelStage(scenario);
  expect(stage.begin()).toEqual(['apply-pins nothing']);
  for (const [at, row] of scenario.rows.entries()) {
    const came = { row: at, ...(await stage.play(row.event)) };
    // What the table leaves out is taken as it came.
    expect(came).toEqual({ ...came, refused: undefined, ...row, mirrors: 'nothing' });
  }
}

/** The same with the mirrors that stay: everything else is as in the table. */
async function playServed(scenario: Scenario): Promise<void> {
  const stage = createModelStage(scenario, POLICY.serve);
  // An activation that waits for no mirrors starts in the round that notes that the release is
  // ready.
  const rest = (effects: readonly string[]) => effects.filter((effect) => !effect.startsWith('apply-mirrors')).sort();
  let written = 0;
  let needed = 0;
  let mirrors = 'nothing';
  stage.begin();
  for (const [at, row] of scenario.rows.entries()) {
    const came = { row: at, ...(await stage.play(row.event)) };
    const expected = { ...came, refused: undefined, ...row, mirrors: mirrorsOf(came.phases ?? '') };
    expect({ ...came, effects: rest(came.effects) }).toEqual({ ...expected, effects: rest(row.effects) });
    // Mirrors that stay are not written again, but after a restart of the model, which forgets
    // them.
    written += came.effects.length - rest(came.effects).length;
    needed += row.effects.length - rest(row.effects).length + Number(came.mirrors !== mirrors);
    if (/restart|reboot|power-cut|lose-state/.test(row.event.kind)) needed += 1;
    mirrors = came.mirrors;
  }
  expect(written).toBeLessThanOrEqual(needed);
}

for (const { topic, scenarios } of SCENARIOS) {
  describe(`${topic}, decided`, () => {
    for (const scenario of scenarios) it(scenario.name, () => play(scenario));
    for (const scenario of scenarios) it(`${scenario.name}; served after activation`, () => playServed(scenario));
  });
}

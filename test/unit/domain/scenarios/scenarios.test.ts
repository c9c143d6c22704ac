import { describe, expect, it } from 'vitest';
import { SCENARIOS } from '../../../support/daemon/scenarios/all.ts';
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
    expect(came).toEqual({ ...came, refused: undefined, ...row });
  }
}

for (const { topic, scenarios } of SCENARIOS) {
  describe(`${topic}, decided`, () => {
    for (const scenario of scenarios) it(scenario.name, () => play(scenario));
  });
}

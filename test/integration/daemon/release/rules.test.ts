import { beforeEach, describe, expect, it } from 'vitest';
import { renderList } from '../../../../src/cli/output/render/render-status.ts';
import type { UpdateRules } from '../../../../src/domain/model/bundle.ts';
import type { DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { type CrioNode, createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { have } from '../../../support/requirements.ts';

describe.runIf(have('root', 'mmdebstrap'))('signed rules hold the activation', () => {
  let node: CrioNode;
  let harness: DaemonHarness;

  beforeEach(async () => {
    node = await createCrioNode({ streams: { ocp: { current: '4.13.6' } } });
    ({ harness } = node);
  });
  const make = (update: UpdateRules) => harness.make({ created: '2019-01-01T00:00:00Z', update });
  const tagged = async () => (await harness.images()).flatMap(({ repoTags }) => repoTags);

  it.each([
    { rule: 'rule/from', update: { from: '>=99.0.0' }, words: />=99\.0\.0/ },
    {
      rule: 'rule/rollout',
      update: { rollout: { start: '2130-01-01T00:00:00Z', startPercentage: 1 } },
      words: /2130-01-01T00:00:00Z/,
    },
    { rule: 'rule/end-of-life', update: { endOfLife: '2020-01-01T00:00:00Z' }, words: /2020-01-01T00:00:00Z/ },
  ])('$rule: preloaded and pinned, no tag moves, and a restart changes nothing', async ({ rule, update, words }) => {
    const bundle = await make(update);
    await harness.start(bundle.path);
    const report = await harness.until(
      ({ bundles: [one], status }) => one?.reason?.code === rule && words.test(status),
    );
    expect(report.bundles[0]).toMatchObject({ phase: 'ready', images: { total: 2, present: 2, pinned: 2 } });
    expect(report.bundles[0]?.reason?.message).toMatch(words);
    expect(renderList(report)).toMatch(words);
    await harness.restart();
    const { engine } = harness;
    await expect.poll(() => engine.report()?.bundles[0]?.reason?.code).toBe(rule);
    expect(await tagged()).toEqual([]);
    expect(() => engine.commands.activate({ bundle: 'ocp@4.13.7' })).toThrow(words);
    engine.commands.activate({ bundle: 'ocp@4.13.7', override: true });
    await harness.until(({ bundles: [one] }) => one?.phase === 'activated' && one.reason === undefined);
    expect((await tagged()).sort()).toEqual(bundle.contents.images.flatMap(({ tags }) => tags).sort());
  });
});

import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { hostArch, makeSampleBundle, type SampleBundle, sampleKey } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage, sampleLayer } from '../../../support/bundles/sample-image.ts';
import { MIB } from '../../../support/daemon/scenario.ts';
import { SCENARIOS } from '../../../support/daemon/scenarios/all.ts';
import { createDaemonStage, type DaemonStage } from '../../../support/daemon/scenarios/daemon-stage.ts';
import { mirrorsOf } from '../../../support/daemon/scenarios/mirrors-of.ts';
import { LETTERS, planOf, type ReleasePlan } from '../../../support/daemon/scenarios/releases.ts';
import type { Letter, Scenario } from '../../../support/daemon/scenarios/table.ts';
import { eventually } from '../../../support/eventually.ts';
import { folderForAll } from '../../../support/files/temporary-folder.ts';
import { have } from '../../../support/requirements.ts';
import { trixieRoot } from '../../../support/rootfs/trixie-root.ts';

/**
 * The effects that change a state, each once, however often they were done and with however much
 * force.
 */
function asSet(effects: readonly string[]): readonly string[] {
  const changing = effects.filter((effect) => !effect.startsWith('apply-mirrors'));
  return [...new Set(changing.map((effect) => effect.replace(' by force', '')))].sort();
}

/**
 * The tables of test/unit/domain/scenarios/scenarios.test.ts over the daemon: real bundles in the
 * folder of a stick, the CRI-O double behind real gRPC with containers that the test writes down,
 * SQLite, restarts, and a clock that is set forth. How many rounds something takes depends on the
 * machine here: a reload that takes effect late makes a pull be tried twice, pins be asked for
 * again, mirrors come and go. So what a step does is compared as a set, without mirrors, of which
 * only is said which are left.
 */
describe.runIf(have('root', 'mmdebstrap'))('on the CRI-O double', () => {
  const key = sampleKey();
  const bundles = new Map<string, Promise<SampleBundle>>();
  const factory = folderForAll();
  let stage: DaemonStage | undefined;

  beforeAll(async () => {
    await trixieRoot();
  });
  afterEach(async () => {
    await stage?.dispose();
    stage = undefined;
  });

  const makeRelease = (dir: string, { images, ...payload }: ReleasePlan): Promise<SampleBundle> =>
    makeSampleBundle({
      dir,
      keys: [key],
      ...payload,
      images: images.map(({ component, seed, repository, tag }) => {
        const names = component === 'base' ? ['os'] : ['os', seed];
        // Large enough that what an image takes beside its layers does not count.
        const layers = names.map((name) => sampleLayer({ seed: name, sizeBytes: MIB }));
        const image = sampleImage({ seed, architecture: hostArch, layers });
        return { component, reference: `${repository}:${tag}`, image };
      }),
    });
  /** Each is made once for all scenarios that have the same. */
  const make = (plan: ReleasePlan): Promise<SampleBundle> => {
    const id = JSON.stringify(plan);
    const made = bundles.get(id) ?? makeRelease(mkdtempSync(join(factory, 'release-')), plan);
    bundles.set(id, made);
    return made;
  };
  const releasesOf = async ({ traits, rows }: Scenario): Promise<ReadonlyMap<Letter, SampleBundle>> => {
    const named = LETTERS.filter((letter) => rows.some(({ event }) => 'release' in event && event.release === letter));
    const made = named.map(async (letter) => [letter, await make(planOf(letter, traits))] as const);
    return new Map(await Promise.all(made));
  };

  async function play(scenario: Scenario): Promise<void> {
    const played = await createDaemonStage(scenario, await releasesOf(scenario), key);
    stage = played;
    await played.begin();
    for (const [at, row] of scenario.rows.entries()) {
      const refused = await played.happen(row.event);
      const look = async (): Promise<void> => {
        const came = { row: at, event: row.event, refused, ...(await played.atRest()) };
        // What the table leaves out is taken as it came.
        const expected = { ...came, refused: undefined, ...row, mirrors: mirrorsOf(came.phases) };
        expect({ ...came, effects: asSet(came.effects) }).toEqual({ ...expected, effects: asSet(row.effects) });
      };
      await eventually(look, 120_000, 100);
    }
  }

  for (const { topic, scenarios } of SCENARIOS) {
    describe(topic, () => {
      for (const scenario of scenarios) it(scenario.name, () => play(scenario), 300_000);
    });
  }
});

import { afterEach, describe, expect, it } from 'vitest';
import { createExaminedRuntime } from '../../../src/app/doctor/examine-node.ts';
import { checkRuntime } from '../../../src/doctor/check-runtime.ts';
import { type CrioDouble, startCrioDouble } from '../../support/crio-double/start-crio-double.ts';
import { findingsOf } from '../../support/examined-node.ts';
import { have } from '../../support/requirements.ts';

describe.runIf(have('root'))('the check of the runtime', () => {
  let double: CrioDouble;
  afterEach(async () => {
    await double.stop();
  });

  const findings = async (version: string) => {
    double = await startCrioDouble({ flags: [`--version=${version}`] });
    const { socketPath } = double;
    const findRuntime = async () => createExaminedRuntime({ kind: 'cri-o', title: 'CRI-O', socketPath });
    const found = await findingsOf(checkRuntime, { findRuntime, settings: { preload: { min_free_percent: 0 } } });
    return found.flatMap(({ subject, verdict, message }) => (subject === 'runtime' ? [`${verdict}: ${message}`] : []));
  };

  it('names a version that is too old, and which one is needed', async () => {
    const found = await findings('1.27.8');
    expect(found).toHaveLength(1);
    expect(found[0]).toMatch(
      /^fault: cri-o 1\.27\.8 is too old: stickpin needs CRI-O 1\.28 or newer\. Nothing is loaded/,
    );
  });

  it('warns of a version that it can not read', async () => {
    const found = await findings('main');
    expect(found[0]).toMatch(/^ok: cri-o main answers/);
    expect(found[1]).toBe("warning: the version of cri-o main can't be read; stickpin needs CRI-O 1.28 or newer");
  });

  it('accepts the least supported version', async () => {
    expect(await findings('1.28.0')).toEqual([expect.stringMatching(/^ok: cri-o 1\.28\.0 answers/)]);
  });
});

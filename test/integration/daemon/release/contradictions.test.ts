import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { UpdateRules } from '../../../../src/domain/model/bundle.ts';
import type { StatusReport } from '../../../../src/domain/report/status-schema.ts';
import {
  makeSampleBundle,
  type SampleBundle,
  type SampleBundleOptions,
  sampleKey,
} from '../../../support/bundles/sample-bundle.ts';
import {
  createDaemonHarness,
  type DaemonHarness,
  type SettingsOverrides,
} from '../../../support/daemon/daemon-harness.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const key = sampleKey();
const BARRIER = { barrier: { reason: 'storage is migrated' } };

const factory = folderForEach();
let node: DaemonHarness;

/** Release `1.N.0` with sequence N. */
const release = (minor: number, update?: UpdateRules, over: Partial<SampleBundleOptions> = {}): Promise<SampleBundle> =>
  makeSampleBundle({
    dir: mkdtempSync(join(factory, 'made-')),
    keys: [key],
    version: `1.${minor}.0`,
    sequence: minor,
    ...(update !== undefined && { update }),
    ...over,
  });
/** A node on which 1.2.0 is current, and its stick pulled out. */
const startOn12 = async (settings: SettingsOverrides = {}, update?: UpdateRules) => {
  node = await createDaemonHarness({ settings, keys: [key] });
  await node.start((await release(2, update)).path);
  await untilCurrent('1.2.0');
  await unplug();
};
const sticks = () => node.report().media.filter(({ medium }) => medium.endsWith('/stick')).length;
const unplug = async () => {
  node.unplug();
  await node.until(() => sticks() === 0);
};
const plug = (...bundles: readonly SampleBundle[]) => node.plug(...bundles.map(({ path }) => path));
const entry = (version: string, { bundles }: StatusReport = node.report()) =>
  bundles.find((one) => one.version === version);
const untilCurrent = (version: string) =>
  node.until((report) => entry(version, report)?.current === true && report.operation === 'idle');
const untilReady = (...versions: readonly string[]) =>
  node.until(
    (report) => versions.every((version) => entry(version, report)?.phase === 'ready') && report.operation === 'idle',
  );
const holds = (version: string, report = node.report()) =>
  entry(version, report)?.activationHolds?.map(({ code }) => code);
const untilHeld = (version: string, ...codes: readonly string[]) =>
  node.until((report) => entry(version, report)?.phase === 'ready' && holds(version, report)?.join() === codes.join());
/** Versions in the order in which they were activated since the node was made. */
const order = () => node.history('bundleActivated').map(({ message }) => /\bocp (\d\S*)/.exec(message)?.[1]);
/** Nothing more is activated, whatever is plugged in again and however often the daemon starts. */
async function expectRest(): Promise<void> {
  const before = order();
  node.unplug();
  await node.until(() => sticks() === 0);
  node.plugAgain();
  await node.until(() => sticks() === 1);
  await node.restart();
  await node.rounds();
  expect(order()).toEqual(before);
}

describe('an update graph that contradicts itself', () => {
  it('ranges that ask for each other hold both releases, and STATUS names the range', async () => {
    await startOn12();
    plug(await release(3, { from: '1.4.x' }), await release(4, { from: '1.3.x' }));
    const { status } = await untilReady('1.3.0', '1.4.0');
    expect([holds('1.3.0'), holds('1.4.0')]).toEqual([['rule/from'], ['rule/from']]);
    expect(status).toMatch(/rule "from" needs 1\.[34]\.x, and the current release is 1\.2\.0/);
    await expectRest();
    expect(order()).toEqual(['1.2.0']);
  });

  it('ranges in a circle, with downgrades allowed, are walked once', async () => {
    await startOn12({ update: { allow_downgrade: true } }, { from: '1.3.x' });
    plug(await release(3, { from: '1.2.x' }));
    await untilCurrent('1.3.0');
    await unplug();
    plug(await release(2, { from: '1.3.x' }), await release(1, { from: '1.3.x' }), await release(4, { from: '1.1.x' }));
    await untilCurrent('1.4.0');
    await expectRest();
    expect(order()).toEqual(['1.2.0', '1.3.0', '1.1.0', '1.4.0']);
  });

  it('a barrier that does not take the present release holds itself and what is behind it', async () => {
    await startOn12();
    plug(await release(3, { ...BARRIER, from: '1.4.x' }), await release(4, { from: '1.2.x' }));
    const { status } = await untilReady('1.3.0', '1.4.0');
    expect([holds('1.3.0'), holds('1.4.0')]).toEqual([['rule/from'], ['rule/barrier']]);
    expect(status).toMatch(/rule "from" needs 1\.4\.x|barrier 1\.3\.0/);
    await expectRest();
    expect(order()).toEqual(['1.2.0']);
  });

  it('a barrier that is a dead end too is the last one, and STATUS says why', async () => {
    await startOn12();
    plug(await release(3, { ...BARRIER, deadend: { reason: 'the storage is too new' } }), await release(4));
    await untilCurrent('1.3.0');
    node.engine.commands.prove({ bundle: 'ocp@1.3.0' });
    const { status } = await untilHeld('1.4.0', 'rule/deadend');
    expect(status).toMatch(/1\.3\.0 is a dead end/);
    await expectRest();
    expect(order()).toEqual(['1.2.0', '1.3.0']);
  });

  it('all releases are barriers and nothing is proven: one step, and the next waits for the proof', async () => {
    await startOn12({}, BARRIER);
    plug(await release(3, BARRIER), await release(4, BARRIER));
    const { status } = await untilReady('1.3.0', '1.4.0');
    expect([holds('1.3.0'), holds('1.4.0')]).toEqual([['rule/barrier'], ['rule/barrier']]);
    expect(status).toMatch(/barrier 1\.2\.0/);
    await expectRest();
    node.engine.commands.prove({ bundle: 'ocp@1.2.0' });
    await untilCurrent('1.3.0');
    await untilHeld('1.4.0', 'rule/barrier');
    expect(order()).toEqual(['1.2.0', '1.3.0']);
  });

  it('versions and sequences that run against each other lead upwards only, and nowhere twice', async () => {
    await startOn12();
    plug(
      await release(5, {}, { sequence: 3 }),
      await release(4, {}, { sequence: 4 }),
      await release(3, {}, { sequence: 5 }),
    );
    await untilCurrent('1.3.0');
    await expectRest();
    expect(order()).toEqual(['1.2.0', '1.3.0']);
  });
});

describe('advisories that contradict each other', () => {
  const says = (sequence: number, advisory: { barrier?: true; deadend?: true }) =>
    release(0, undefined, {
      version: `2026.1.${sequence}`,
      sequence,
      images: [],
      advisories: [{ version: '1.2.0', reason: `said by ${sequence}`, ...advisory }],
    });

  it.each([
    { first: 91, second: 92 },
    { first: 92, second: 91 },
  ])('of those with the sequences $first and $second the newer one counts', async ({ first, second }) => {
    const notices = new Map([
      [91, await says(91, {})],
      [92, await says(92, { deadend: true })],
    ]);
    await startOn12();
    for (const sequence of [first, second]) {
      const notice = notices.get(sequence);
      if (notice !== undefined) plug(notice);
      await node.until((report) => report.notices.some((one) => one.bundleId === notice?.bundleId));
      await unplug();
    }
    plug(await release(3));
    const { status } = await untilReady('1.3.0');
    expect(holds('1.3.0')).toEqual(['rule/deadend']);
    expect(status).toMatch(/said by 92|1\.2\.0 is a dead end/);
    await expectRest();
    expect(order()).toEqual(['1.2.0']);
  });
});

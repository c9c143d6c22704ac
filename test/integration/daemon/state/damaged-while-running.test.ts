import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { renderList, renderStatus } from '../../../../src/cli/output/render/render-status.ts';
import { messageIds } from '../../../../src/platform/message-ids.ts';
import { makeSampleBundle, type SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { type DamagedPart, damageDatabase } from '../../../support/state/damage-database.ts';
import { loseMirror, loseSigned } from '../../../support/state/lose-state.ts';

const DAMAGED = /state\.db is damaged: run 'systemctl restart stickpin'\. .*all pins stay\./;
/** In a line of STATUS, with the long path of a test. */
const DAMAGED_LINE = /state\.db is damaged: run 'systemctl restart stickpin'/;
const TRIED_AGAIN = /tried again|continues automatically/;

describe.each<DamagedPart>(['header', 'pages'])('a state database whose %s are damaged under the daemon', (part) => {
  let factory: string;
  let harness: DaemonHarness;
  let bundle: SampleBundle;

  beforeEach(async () => {
    factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
    harness = await createDaemonHarness();
    bundle = await makeSampleBundle({ dir: factory, keys: [harness.key] });
    await harness.start();
    harness.plug(bundle.path);
    await harness.until((report) => report.bundles[0]?.phase === 'activated' && report.operation === 'idle');
    harness.unplug();
    await harness.until(({ media }) => media.every(({ bundles }) => bundles === 0));
    await harness.daemon().engine.settled(AbortSignal.timeout(10_000));
    damageDatabase(statePath('state.db'), part);
  });
  afterEach(async () => {
    await harness.dispose();
    rmSync(factory, { recursive: true, force: true });
  });
  const statePath = (name: string) => join(harness.settings.paths.state_dir, name);
  const pinned = async () => (await harness.images()).filter((image) => image.pinned).length;

  it('is reported by a command, STATUS, status and the journal; the values in memory stay in use', async () => {
    expect(() => harness.daemon().engine.commands.reject({ bundle: bundle.bundleId })).toThrow(
      expect.objectContaining({ code: 'store/damaged', message: expect.stringMatching(DAMAGED) }),
    );
    harness.daemon().engine.kick();
    const report = await harness.until(({ status }) => DAMAGED_LINE.test(status));
    expect(report.status).toContain(statePath('state.db'));
    expect(report.status).not.toMatch(TRIED_AGAIN);
    expect(report.bundles.map(({ phase }) => phase)).toEqual(['activated']);
    expect(renderStatus(report)).toMatch(DAMAGED_LINE);
    expect(await pinned()).toBe(2);
    const told = harness.log.lines.filter(({ fields }) => fields.messageId === messageIds.stateLost);
    expect(told).toEqual([{ level: 'error', message: expect.stringMatching(DAMAGED), fields: expect.anything() }]);
  });

  it('holds a new bundle, which list shows with the reason', async () => {
    const later = await makeSampleBundle({ dir: factory, version: '4.13.8', sequence: 9, keys: [harness.key] });
    harness.plug(later.path);
    await harness.until(({ media, status }) => media.some(({ bundles }) => bundles === 1) && DAMAGED_LINE.test(status));
    const listed = await harness.until(({ bundles }) => bundles.some(({ phase }) => phase === 'detected'));
    expect(renderList(listed)).toMatch(/ocp@4\.13\.8 +detected/);
    expect(renderList(listed)).toMatch(DAMAGED);
    expect(await pinned()).toBe(2);
  });

  it('is renamed at the next start and made again from its mirror', async () => {
    await harness.stop();
    await harness.start();
    const mended = await harness.until(({ bundles }) => bundles[0]?.phase === 'activated');
    expect(mended.unclaimed).toEqual([]);
    expect(mended.status).not.toMatch(DAMAGED_LINE);
    expect(readdirSync(statePath('')).filter((name) => /^state\.db\.damaged-\w+$/.test(name))).toHaveLength(1);
    const told = harness.log.lines.map(({ message }) => message);
    expect(told).toContainEqual(expect.stringMatching(/could not be used: .* goes on with .*state\.json of /));
    expect(await pinned()).toBe(2);
  });

  it('is renamed at the next start; without a mirror, a release claims its pins when its stick is seen', async () => {
    await harness.stop();
    loseMirror(statePath(''));
    loseSigned(statePath(''));
    await harness.start();
    const lost = await harness.until(({ unclaimed }) => unclaimed.length > 0);
    expect(lost.unclaimed).toEqual([{ references: expect.arrayContaining([expect.stringMatching(/@sha256:/)]) }]);
    expect(readdirSync(statePath('')).filter((name) => /^state\.db\.damaged-\w+$/.test(name))).toHaveLength(1);
    expect(await pinned()).toBe(2);
    harness.plugAgain();
    // Without floors nothing is activated by itself.
    const mended = await harness.until(({ bundles }) => bundles[0]?.phase === 'ready');
    expect(mended.unclaimed).toEqual([]);
    expect(mended.status).not.toMatch(DAMAGED_LINE);
  });
});

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { messageIds } from '../../../../src/platform/message-ids.ts';
import { installKeys, makeSampleBundle, type SampleKey, sampleKey } from '../../../support/bundles/sample-bundle.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { eventually } from '../../../support/eventually.ts';
import { damageDatabase } from '../../../support/state/damage-database.ts';
import { loseMirror, loseSigned } from '../../../support/state/lose-state.ts';
import { openSampleState } from '../../../support/state/open-sample-state.ts';

let factory: string;
let node: DaemonHarness;

beforeEach(() => {
  factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
});
afterEach(async () => {
  await node.dispose();
  rmSync(factory, { recursive: true, force: true });
});

const statePath = (name: string) => join(node.settings.paths.state_dir, name);
const lines = () => node.log.lines.map(({ message }) => message);

/** Changes one byte in the middle: what is left still looks like the file. */
function damageFile(path: string): void {
  const bytes = readFileSync(path);
  const middle = Math.floor(bytes.length / 2);
  bytes.writeUInt8(bytes.readUInt8(middle) ^ 1, middle);
  writeFileSync(path, bytes);
}

const release = async (sequence: number, key: SampleKey) =>
  makeSampleBundle({ dir: factory, version: `4.13.${sequence}`, sequence, keys: [key] });

describe('state.json that is damaged', () => {
  beforeEach(async () => {
    node = await createDaemonHarness();
    await node.start();
    node.plug((await release(9, node.key)).path);
    await node.until((report) => report.bundles[0]?.phase === 'activated' && report.operation === 'idle');
    node.unplug();
    await node.stop();
    damageFile(statePath('state.json'));
  });

  it('uses the floors of the database: nothing below them is adopted', async () => {
    await node.start();
    node.plug((await release(2, node.key)).path);
    const report = await node.until(({ rejected }) => rejected.length > 0);
    expect(report.rejected[0]?.reason.code).toBe('bundle/sequence');
    expect(report.bundles.map(({ version, phase }) => [version, phase])).toEqual([['4.13.9', 'activated']]);
    expect(report.stateProblems).toContainEqual(
      expect.objectContaining({ message: expect.stringMatching(/state\.json/) }),
    );
    expect(lines()).toContainEqual(expect.stringMatching(/state\.json could not be used: .* it is kept as /));
  });

  it('together with state.db: the floors of the earlier one count, and nothing below them is adopted', async () => {
    damageDatabase(statePath('state.db'), 'pages');
    await node.start();
    node.plug((await release(2, node.key)).path);
    const report = await node.until(({ rejected }) => rejected.length > 0);
    expect(report.rejected[0]?.reason.code).toBe('bundle/sequence');
    expect(report.bundles.map(({ version }) => version)).toEqual(['4.13.9']);
  });

  it('together with state.db: nothing is activated without a person, and STATUS and the journal say so', async () => {
    damageDatabase(statePath('state.db'), 'pages');
    loseMirror(statePath(''));
    loseSigned(statePath(''));
    await node.start();
    node.plug((await release(2, node.key)).path);
    const report = await node.until(({ bundles }) => bundles.some(({ phase }) => phase === 'ready'));
    expect(report.bundles.map(({ version, phase }) => [version, phase])).toEqual([['4.13.2', 'ready']]);
    expect(report.status).toContain('is loaded, not activated: the records of earlier releases are lost.');
    expect(lines()).toContainEqual(expect.stringMatching(/^Which sequences were activated here is lost/));
    expect(
      node
        .daemon()
        .engine.history(undefined, 100)
        .map(({ kind }) => kind),
    ).not.toContain('bundleActivated');
  });
});

describe('state.db that is lost with its mirror', () => {
  it('says once of a release whose key is not trusted any more that it is not rebuilt', async () => {
    node = await createDaemonHarness();
    await node.start();
    const { path, bundleId } = await release(9, node.key);
    node.plug(path);
    await node.until((report) => report.bundles[0]?.phase === 'activated' && report.operation === 'idle');
    node.unplug();
    await node.stop();
    damageDatabase(statePath('state.db'), 'pages');
    loseMirror(statePath(''));
    rmSync(join(node.keysFolder, `${node.key.name}.pub`));
    installKeys(node.keysFolder, [sampleKey('other')]);
    await node.start();
    const refused = () => node.log.lines.filter(({ fields }) => fields.messageId === messageIds.releaseNotRebuilt);
    await eventually(() => expect(refused()).toHaveLength(1));
    expect(refused()).toMatchObject([
      { fields: { bundleId }, message: expect.stringMatching(/ is lost and can't be rebuilt from .*unknown key/) },
    ]);
    await node.rounds();
    expect(refused()).toHaveLength(1);
    expect(node.report().bundles).toEqual([]);
    expect((await node.images()).every(({ pinned }) => pinned)).toBe(true);
  });
});

describe('the mirror with the revocations that is damaged', () => {
  let stolen: SampleKey;

  /**
   * A key is revoked by a file in keys.d, which is gone afterwards: the record alone remembers it.
   */
  beforeEach(async () => {
    stolen = sampleKey('stolen');
    const { keyId } = stolen.privateKey;
    node = await createDaemonHarness({ keys: [stolen, sampleKey('kept')] });
    await node.start();
    await node.until(({ trust }) => trust.keys.length === 2);
    writeFileSync(join(node.keysFolder, 'stolen.revoked'), `${keyId}\n`, { mode: 0o644 });
    await node.until(({ trust }) => trust.revoked.length === 1);
    rmSync(join(node.keysFolder, 'stolen.revoked'));
    await node.until(({ trust }) => trust.revoked[0]?.file === undefined);
    await node.stop();
    for (const name of ['state.json', 'state.json.before']) damageFile(statePath(name));
  });

  it('has the record in the database count: the key stays revoked', async () => {
    await node.start();
    node.plug((await release(7, stolen)).path);
    const report = await node.until(({ rejected }) => rejected.length > 0);
    expect(report.rejected[0]?.reason.code).toBe('bundle/revoked-key');
    expect(report.trust.revoked).toEqual([{ keyId: stolen.privateKey.keyId }]);
    expect(lines()).toContainEqual(
      expect.stringMatching(/state\.json could not be used: .* The database has all that it had/),
    );
  });

  it.each([
    ['at the next start', false],
    ['after a kill in the start that found it', true],
  ])('together with state.db, %s: no key is trusted at all, and STATUS names the file', async (_when, isKilled) => {
    damageDatabase(statePath('state.db'), 'pages');
    if (isKilled) openSampleState(statePath('state.db')).close();
    await node.start();
    node.plug((await release(7, stolen)).path);
    const report = await node.until(({ rejected }) => rejected.length > 0);
    expect(report.bundles).toEqual([]);
    expect(report.trust).toMatchObject({ keys: [], revocationsUnreadable: true });
    expect(report.status).toMatch(/: Nothing is trusted, since revocations can't be read: .*state\.json/);
  });
});

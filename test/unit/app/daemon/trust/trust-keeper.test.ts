import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createTrustKeeper, type TrustKeeper } from '../../../../../src/app/daemon/trust/trust-keeper.ts';
import { installFile, installRole } from '../../../../support/bundles/role-file.ts';
import { installKeys, sampleKey } from '../../../../support/bundles/sample-bundle.ts';
import { storedState } from '../../../../support/daemon/scenario.ts';
import { eventually } from '../../../../support/eventually.ts';
import { createRevocationStore, createVirtualClock, type VirtualClock } from '../../../../support/fake-ports.ts';
import { createRecordingLog, type RecordingLog } from '../../../../support/recording-log.ts';

const key = sampleKey('factory-2026');
const other = 'ab'.repeat(32);
let folder: string;
let state: string;
let stop: AbortController;
let clock: VirtualClock;
let log: RecordingLog;
let keeper: TrustKeeper;
let taken: number;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'stickpin-keys-'));
  state = mkdtempSync(join(tmpdir(), 'stickpin-state-'));
  installKeys(folder, [key]);
  stop = new AbortController();
  clock = createVirtualClock();
  log = createRecordingLog();
  taken = 0;
});
afterEach(() => {
  stop.abort();
  for (const path of [folder, state]) rmSync(path, { recursive: true, force: true });
});

async function open(): Promise<void> {
  const settings = {
    keys_dir: folder,
    threshold: 1,
    require: 'signature' as const,
    approved: [],
    max_sequence_step: 0,
  };
  const store = { load: () => storedState([]), ...createRevocationStore() };
  const dependencies = { settings, ownUid: process.getuid?.() ?? 0, store, clock, log };
  keeper = await createTrustKeeper(dependencies, stop.signal);
}
const revoke = (text: string) => writeFileSync(join(folder, 'old.revoked'), text, { mode: 0o644 });
const names = () => keeper.inForce().keys.map(({ name }) => name);
/** What a reload that goes on until nothing is unreadable any more came to. */
const reload = () =>
  keeper.reload(stop.signal, () => {
    taken += 1;
  });
describe('a *.revoked file that can not be read', () => {
  it('changes nothing when it can be read a moment later, as a file that is being written', async () => {
    await open();
    revoke('');
    const reloading = reload();
    await eventually(() => expect(log.lines.at(-1)?.message).toContain('it is read again, and the keys hold'));
    expect(names()).toEqual(['factory-2026']);
    expect(keeper.revocations()).toEqual({ keyIds: [], revocationsUnreadable: false });
    revoke(`${other}\n`);
    await eventually(async () => {
      await clock.advance(1_500);
      expect(keeper.revocations()).toEqual({ keyIds: [other], revocationsUnreadable: false });
    });
    await reloading;
    expect(taken).toBe(1);
    expect(names()).toEqual(['factory-2026']);
  });

  it('lets no key count after some seconds, however often the folder changes, until it can be read', async () => {
    await open();
    revoke('who?');
    const reloads = [reload()];
    const began = clock.monotonic();
    await eventually(async () => {
      reloads.push(reload());
      await clock.advance(1_000);
      expect(keeper.revocations().revocationsUnreadable).toBe(true);
    });
    expect(clock.monotonic() - began).toBeGreaterThanOrEqual(5_000);
    expect(names()).toEqual([]);
    revoke(`${other}\n`);
    await eventually(async () => {
      await clock.advance(30_000);
      expect(names()).toEqual(['factory-2026']);
    });
    await Promise.all(reloads);
  });

  it('lets no key count from the start on, when nothing was read before', async () => {
    revoke('who?');
    await open();
    expect(names()).toEqual([]);
    const reloading = reload();
    await eventually(() => expect(taken).toBe(1));
    expect(keeper.inForce()).toMatchObject({
      revocationsUnreadable: true,
      keys: [],
      problems: [expect.stringContaining('old.revoked')],
    });
    rmSync(join(folder, 'old.revoked'));
    await eventually(async () => {
      await clock.advance(1_500);
      expect(names()).toEqual(['factory-2026']);
    });
    await reloading;
  });
});

describe('the file of a role that can not be read', () => {
  const customer = sampleKey('customer');
  const rolesInForce = () => (keeper.inForce().roles ?? []).map(({ name }) => name);
  const spoil = () => installFile(folder, 'customer.toml', 'threshold = ');
  beforeEach(async () => {
    installRole(folder, 'customer', { keys: [customer] });
    await open();
    expect(rolesInForce()).toEqual(['customer']);
  });

  it('changes nothing when it can be read a moment later, as a file that is being written', async () => {
    spoil();
    const reloading = reload();
    await eventually(() => expect(log.lines.at(-1)?.message).toContain('it is read again, and the keys hold'));
    await clock.advance(1_500);
    expect(rolesInForce()).toEqual(['customer']);
    installRole(folder, 'customer', { keys: [customer], streams: ['other-*'] });
    await eventually(async () => {
      await clock.advance(1_500);
      expect(keeper.inForce().roles).toMatchObject([{ name: 'customer', streams: ['other-*'] }]);
    });
    await reloading;
    expect(taken).toBe(1);
  });

  it('counts no more after five seconds, while plain keys hold, and again when it is mended', async () => {
    spoil();
    const began = clock.monotonic();
    const reloading = reload();
    await eventually(async () => {
      await clock.advance(1_000);
      expect(rolesInForce()).toEqual([]);
    });
    expect(clock.monotonic() - began).toBeGreaterThanOrEqual(5_000);
    await reloading;
    expect(names()).toEqual(['factory-2026']);
    expect(keeper.inForce().problems).toEqual([expect.stringContaining('customer.toml')]);
    installRole(folder, 'customer', { keys: [customer] });
    await reload();
    expect(rolesInForce()).toEqual(['customer']);
  });

  it('counts no more at once when it was removed', async () => {
    rmSync(join(folder, 'customer.toml'));
    await reload();
    expect([rolesInForce(), clock.monotonic()]).toEqual([[], 0]);
  });
});

describe('what is said of keys', () => {
  it('is no change of keys at a start, and one when a key comes', async () => {
    await open();
    expect(log.lines.map(({ message }) => message)).toContain('Trusted keys: factory-2026');
    expect(log.kinds()).not.toContain('keysChanged');
    installKeys(folder, [sampleKey('spare')]);
    await reload();
    expect(log.kinds().filter((kind) => kind === 'keysChanged')).toEqual(['keysChanged']);
  });

  it('is no change of keys for a file that can not be used', async () => {
    writeFileSync(join(folder, 'bad.pub'), 'no key', { mode: 0o644 });
    await open();
    expect(log.kinds()).toContain('keyFileUnusable');
    expect(log.kinds()).not.toContain('keysChanged');
  });

  it.each(['factory.key', 'factory.pub', 'notes.txt', 'customer.toml', 'x.revoked'])(
    'warns of a private key, whatever its name: %s',
    async (file) => {
      writeFileSync(join(folder, file), `# mine\n${sampleKey('secret').privatePem}`, { mode: 0o600 });
      await open();
      const told = `PRIVATE KEY in ${join(folder, file)}${file.endsWith('.toml') ? ', so nothing is trusted by this role' : ''}; delete it and make a new one`;
      expect(keeper.inForce().problems).toContainEqual(expect.stringContaining(told));
      expect(keeper.inForce().alarm?.message).toContain(told);
      expect(log.kinds()).toContain('privateKeyFound');
      expect(names()).toEqual(file.endsWith('.revoked') ? [] : ['factory-2026']);
    },
  );

  it('is an alarm when no key is trusted', async () => {
    await open();
    expect(keeper.inForce().alarm).toBeUndefined();
    rmSync(join(folder, 'factory-2026.pub'));
    await reload();
    expect(keeper.inForce().alarm).toEqual({
      code: 'trust/no-key',
      message: `No key is trusted: copy the factory's .pub file to ${folder}`,
    });
  });
});

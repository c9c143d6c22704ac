import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Store } from '../../../src/ports/state.ts';
import { NOON, verified } from '../../support/daemon/scenario.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { openSampleState } from '../../support/state/open-sample-state.ts';

const DAMAGES = Number(process.env.STICKPIN_LOSSES ?? 150);
const { signal } = new AbortController();
const event = (kind: string) => ({ at: NOON, kind, message: kind });
const bundle = verified();
const other = verified({ name: 'tools', version: '1.0.0' });

/** What must not be lost: milestones, trust, floors, pins and revocations. Soak times may be. */
function weightyOf(store: Store): string {
  const { bundles, verdicts, rejectedNames, rotation } = store.load();
  return JSON.stringify([
    bundles.map(({ soak: _soak, ...kept }) => kept),
    [verdicts, rejectedNames, rotation],
    (['floors', 'pins'] as const).map((name) => store.document(name)),
    store.revocationRecord(),
  ]);
}

/** Changes without weight, which stay in the log of the database. */
function addLightChanges(store: Store): void {
  for (let at = 1; at <= 20; at += 1) {
    store.append(event(`light-${at}`));
    store.change(bundle.bundleId, { soak: { activatedAt: NOON, bootId: 'b', components: [], backSinceMs: at } });
  }
}

/** Weighty changes, each of which a damage could turn into something else. */
async function addWeightyChanges(store: Store): Promise<void> {
  const key = { keyId: 'a'.repeat(64), pem: 'PEM', bundleId: bundle.bundleId };
  const revoked = { keyId: 'b'.repeat(64), bundleId: bundle.bundleId };
  store.adopt(bundle, event('bundleVerified'), { keys: [key], revoked: [revoked] });
  store.adopt(other, event('bundleVerified'));
  await store.mirror(signal);
  store.change(bundle.bundleId, { activatedAt: NOON }, event('bundleActivated'));
  store.setVerdict({ bundleId: other.bundleId, verdict: 'rejected', at: NOON }, event('bundleVetoed'));
  store.rejectName({ name: 'ocp', version: '9.9.9', at: NOON }, event('rejected'));
  store.setRevocationRecord({ folders: ['/etc'], revocations: [] });
  store.setDocument('floors', '{"sequences":[["ocp",7]]}');
  store.setDocument('pins', '{"unclaimed":["a"]}');
  await store.mirror(signal);
}

/** Damages one file in one of many ways, and returns in words how. */
function damageFile(path: string, random: () => number): string {
  const below = (limit: number) => Math.floor(random() * limit);
  const bytes = existsSync(path) ? readFileSync(path) : Buffer.alloc(0);
  const size = bytes.length;
  const kind = below(6);
  if (kind === 0 || size === 0) {
    rmSync(path, { force: true });
    return 'is gone';
  }
  if (kind === 1) {
    const left = below(size);
    truncateSync(path, left);
    return `has ${left} of ${size} bytes`;
  }
  if (kind === 2) {
    const at = below(size);
    bytes.fill(0, at, Math.min(size, at + 512));
    writeFileSync(path, bytes);
    return `has zeroes at ${at}`;
  }
  const places = Array.from({ length: 1 + below(4) }, () => below(size));
  for (const at of places) bytes.writeUInt8(bytes.readUInt8(at) ^ (1 << below(8)), at);
  writeFileSync(path, bytes);
  return `has flipped bits at ${places.join(', ')}`;
}

describe(`${DAMAGES} damages of a database that a kill left`, { timeout: 300_000 }, () => {
  let folder: string;
  let mirrored: string;
  let recorded: string;

  /** The last weighty change came too late for the mirror. */
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'stickpin-damages-'));
    const { store, close } = openSampleState(join(folder, 'live/state.db'));
    await addWeightyChanges(store);
    mirrored = weightyOf(store);
    addLightChanges(store);
    cpSync(join(folder, 'live'), join(folder, 'mirrored'), { recursive: true });
    store.change(other.bundleId, { activatedAt: NOON }, event('bundleActivated'));
    recorded = weightyOf(store);
    addLightChanges(store);
    cpSync(join(folder, 'live'), join(folder, 'recorded'), { recursive: true });
    close();
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it.each(['mirrored', 'recorded'])('take nothing weighty from what is %s, or the loss says so', (which) => {
    const seed = Number(process.env.STICKPIN_TEST_SEED ?? Date.now() % 2 ** 31);
    const random = seededRandom(seed);
    for (let damage = 0; damage < DAMAGES; damage += 1) {
      const node = join(folder, 'node');
      rmSync(node, { recursive: true, force: true });
      cpSync(join(folder, which), node, { recursive: true });
      const names = random() < 0.4 ? ['state.db'] : random() < 0.7 ? ['state.db-wal'] : ['state.db', 'state.db-wal'];
      const how = names.map((name) => `${name} ${damageFile(join(node, name), random)}`).join(', ');
      const what = `damage ${damage} with STICKPIN_TEST_SEED=${seed}: ${how}`;
      const { store, loss, close } = openSampleState(join(node, 'state.db'));
      const found = weightyOf(store);
      close();
      const isWhole = which === 'mirrored' ? found === mirrored : found === recorded;
      if (!isWhole) expect([found, loss?.remains], what).toEqual([mirrored, 'mirror']);
    }
  });
});

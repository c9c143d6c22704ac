import { chmodSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { keyProblemLine } from '../../../src/bundle/keys/keys-folder.ts';
import { parseRevocationRecord } from '../../../src/bundle/keys/revocation-record.ts';
import { loadTrustedKeys } from '../../../src/bundle/keys/trust.ts';
import { withRotation } from '../../../src/bundle/keys/with-rotation.ts';
import { checkKeys } from '../../../src/doctor/check-keys.ts';
import type { TrustReport } from '../../../src/domain/report/status-schema.ts';
import { EMPTY_RECORD, type RevocationRecord } from '../../../src/domain/trust/revocation-record.ts';
import { installRole } from '../../support/bundles/role-file.ts';
import { installKeys, sampleKey } from '../../support/bundles/sample-bundle.ts';
import { findingsOf } from '../../support/examined-node.ts';
import { temporaryFolder } from '../../support/files/temporary-folder.ts';

const { signal } = new AbortController();
const key = sampleKey('factory-2026');
const { keyId } = key.privateKey;
const BROUGHT = 'ab'.repeat(32);
const IN_FORCE: TrustReport = {
  require: 'signature',
  threshold: 1,
  keys: [],
  revoked: [],
  problems: [],
  revocationsUnreadable: false,
};
let work: string;
let folder: string;
let record: () => RevocationRecord;
beforeEach(() => {
  work = temporaryFolder();
  record = () => EMPTY_RECORD;
  folder = join(work, 'keys.d');
  installKeys(folder, [key]);
});

const findings = (threshold = 1, inForce?: Partial<TrustReport>, require: 'signature' | 'approval' = 'signature') => {
  const settings = { trust: { keys_dir: folder, threshold, require } };
  const trust = inForce && { ...IN_FORCE, ...inForce };
  return findingsOf(checkKeys, { settings, trust, revocations: async () => record() });
};
const look = async (threshold = 1, inForce?: Partial<TrustReport>) =>
  (await findings(threshold, inForce)).map(({ verdict, message }) => `${verdict}: ${message}`);

describe('stickpin doctor: keys', () => {
  it('counts keys that a bundle added, which only the daemon knows', async () => {
    expect(await look(2)).toEqual(['fault: only factory-2026 is trusted, but trust.threshold wants 2 distinct keys']);
    const brought = { keys: [{ name: BROUGHT.slice(0, 12), keyId: BROUGHT, broughtBy: 'ocp@5' }] };
    expect(await look(2, brought)).toEqual(['ok: trusted: factory-2026, abababababab (added by bundle ocp@5)']);
  });

  it('asks for no key where bundles are approved instead', async () => {
    rmSync(folder, { recursive: true });
    const [first] = await findings(1, undefined, 'approval');
    expect(first).toMatchObject({ verdict: 'ok', message: expect.stringMatching(/approved.*trusted: no key$/) });
  });

  it('names revoked keys, and does not count one that a bundle revoked though its file is there', async () => {
    const file = join(folder, 'old.revoked');
    writeFileSync(file, `${BROUGHT}\n`, { mode: 0o644 });
    expect(await look()).toEqual(['ok: trusted: factory-2026', 'ok: revoked: abababababab…']);
    const [first, second] = await look(1, { revoked: [{ keyId, revokedBy: 'ocp@6' }, { keyId: BROUGHT }] });
    expect(first).toBe('fault: no key is trusted, since factory-2026 is revoked, so that no signature counts');
    expect(second).toBe(`ok: revoked: abababababab…, ${keyId.slice(0, 12)}… (by bundle ocp@6)`);
  });

  it('says that the only key is revoked, by whom, and what to do, with the daemon and without it', async () => {
    const revocations = [
      { keyId, otherIds: [], at: 1 },
      { keyId, otherIds: [], byPerson: true, at: 2 },
    ] as const;
    record = () => ({ folders: [folder], revocations });
    for (const inForce of [undefined, { revoked: [{ keyId, byPerson: true }] } as const]) {
      const [first, second] = await findings(1, inForce);
      expect(first).toMatchObject({
        message: 'no key is trusted, since factory-2026 is revoked, so that no signature counts',
        remedy: `copy the .pub file of a new key to ${folder}, or, if the key was revoked by mistake, run 'stickpin trust restore ${keyId.slice(0, 12)}'`,
      });
      expect(second?.message).toBe(`revoked: ${keyId.slice(0, 12)}… (by stickpin trust revoke)`);
    }
  });

  it('says so of a key that a file revokes too', async () => {
    writeFileSync(join(folder, 'old.revoked'), `${keyId}\n`, { mode: 0o644 });
    expect(await look()).toEqual([
      'fault: no key is trusted, since factory-2026 is revoked, so that no signature counts',
      `ok: revoked: ${keyId.slice(0, 12)}…`,
    ]);
    rmSync(join(folder, 'factory-2026.pub'));
    expect((await look())[0]).toBe('fault: no key is trusted, so that no signature counts');
  });

  it('reports an unreadable revocation as a fault, and another unreadable file as a warning', async () => {
    writeFileSync(join(folder, 'bad.revoked'), 'who?\n', { mode: 0o644 });
    writeFileSync(join(folder, 'notes.txt'), '');
    const findings = await look();
    expect(findings).toHaveLength(2);
    expect(findings[0]).toMatch(/^fault: .*bad\.revoked.*no key counts$/);
    expect(findings[1]).toMatch(/^warning: .*notes\.txt is ignored/);
  });

  it('reports a folder that disappeared and a damaged record as faults', async () => {
    record = () => ({ folders: [folder], revocations: [] });
    rmSync(folder, { recursive: true });
    expect(await look()).toEqual([
      expect.stringMatching(/^fault: .* is missing, but existed before; .*no key counts$/),
    ]);
    record = () => parseRevocationRecord('{', 'state.db');
    expect((await look())[0]).toMatch(/^fault: state\.db, which lists the revoked keys, is damaged/);
  });

  it('reports a folder that its group can write as a fault, and such a parent folder as a warning', async () => {
    chmodSync(folder, 0o775);
    expect((await look())[0]).toMatch(/^fault: .* can be written by its group/);
    chmodSync(folder, 0o755);
    const inner = join(folder, 'keys.d');
    installKeys(inner, [key]);
    chmodSync(folder, 0o777);
    folder = inner;
    expect(await look()).toEqual([
      'ok: trusted: factory-2026',
      expect.stringMatching(/^warning: .* by others than its owner/),
    ]);
  });

  it('names a key whose revocation is remembered, without the daemon too', async () => {
    const revocations = [{ keyId: BROUGHT, otherIds: [], at: 1 }];
    record = () => ({ folders: [folder], revocations });
    expect(await look()).toContain('ok: revoked: abababababab… (by a file that is gone)');
  });

  it('reports a role with too few keys once, as a fault', async () => {
    installRole(folder, 'customer', { keys: [sampleKey('customer')], threshold: 2 });
    const own = await loadTrustedKeys(folder, signal);
    const { roles, problems } = withRotation(own, { keys: [], revoked: [] });
    const findings = await look(1, { roles, problems: problems.map(keyProblemLine) });
    expect(findings).toEqual([
      'ok: trusted: factory-2026',
      expect.stringMatching(/^fault: role customer asks for 2 distinct keys, and has customer\/\w{12}: nothing/),
    ]);
  });
});

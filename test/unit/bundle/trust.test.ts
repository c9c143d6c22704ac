import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { loadTrustedKeys } from '../../../src/bundle/trust.ts';
import { installKeys, sampleKey } from '../../support/sample-bundle.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'stickpin-trust-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));
const load = () => loadTrustedKeys(folder, new AbortController().signal);

describe('loadTrustedKeys', () => {
  it('reads all *.pub, sorted by name, and the same key once', async () => {
    const [a, b] = [sampleKey('a'), sampleKey('b', 'ecdsa-p256')];
    installKeys(folder, [b, a, { ...a, name: 'copy-of-a' }]);
    const { keys, problems } = await load();
    expect(keys.map((key) => [key.name, key.keyId])).toEqual([
      ['a', a.privateKey.keyId],
      ['b', b.privateKey.keyId],
    ]);
    expect(problems).toEqual([]);
  });

  it('leaves a bad file out and names it', async () => {
    installKeys(folder, [sampleKey('good')]);
    writeFileSync(join(folder, 'bad.pub'), 'nonsense');
    writeFileSync(join(folder, 'big.pub'), Buffer.alloc(20_000));
    symlinkSync('/nowhere', join(folder, 'gone.pub'));
    writeFileSync(join(folder, 'key.pem'), '');
    writeFileSync(join(folder, '.good.pub.swp'), '');
    const { keys, problems } = await load();
    expect(keys.map((key) => key.name)).toEqual(['good']);
    expect(problems.map((problem) => problem.file)).toEqual(['bad.pub', 'big.pub', 'gone.pub', 'key.pem']);
    for (const problem of problems) expect(problem.message).toContain(join(folder, problem.file));
  });

  it('does not trust a revoked key, whatever its file is called', async () => {
    const [kept, lost] = [sampleKey('kept'), sampleKey('lost')];
    installKeys(folder, [kept, lost]);
    writeFileSync(join(folder, 'stolen-in-may.revoked'), lost.publicPem);
    expect((await load()).keys.map((key) => key.name)).toEqual(['kept']);
  });

  it('trusts no key while a revocation can not be read', async () => {
    installKeys(folder, [sampleKey('kept')]);
    writeFileSync(join(folder, 'lost.revoked'), 'nonsense');
    expect(await load()).toMatchObject({ keys: [], problems: [{ file: 'lost.revoked' }] });
  });

  it('takes a folder that is not there as empty', async () => {
    rmSync(folder, { recursive: true });
    expect(await load()).toMatchObject({ folder, keys: [], problems: [] });
  });

  it('has a revision that changes with the set and only with it', async () => {
    const revisions = [(await load()).revision];
    installKeys(folder, [sampleKey('a')]);
    revisions.push((await load()).revision);
    expect((await load()).revision).toBe(revisions[1]);
    installKeys(folder, [sampleKey('b')]);
    revisions.push((await load()).revision);
    writeFileSync(join(folder, 'b.revoked'), 'bad');
    revisions.push((await load()).revision);
    expect(new Set(revisions).size).toBe(4);
  });
});

import { generateKeyPairSync } from 'node:crypto';
import { chmodSync, mkdirSync, readFileSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { IdentityKeeper } from '../../../../src/fleet/identity/identity.ts';
import { byKeys, checkKey, nameOfHost, ownKeyLine, parseKeys } from '../../../../src/fleet/identity/node-keys.ts';
import { NEVER_ABORTED } from '../../../../src/platform/async/abort.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { createRecordingLog } from '../../../support/recording-log.ts';

const KEY = `sha256:${'a'.repeat(64)}`;
const OTHER = `sha256:${'b'.repeat(64)}`;
const parse = (text: string) => parseKeys(text, 'fleet.keys');

describe('the list of keys', () => {
  it('has a key and a name in each line, and comments', () => {
    expect([...parse(`\uFEFF${KEY} host-1\r\n`)]).toEqual([[KEY, 'host-1']]);
    expect([...parse(`# three\r\n\n ${KEY}  host-1\r\n${OTHER}\thost-1\n${KEY} host-1\n`)]).toEqual([
      [KEY, 'host-1'],
      [OTHER, 'host-1'],
    ]);
  });

  it.each([
    ['a key without a name', KEY, 'line 1 of fleet.keys must be sha256:'],
    ['a name that no node can have', `\n${KEY} host_1`, 'line 2 of fleet.keys has the name host_1: a node has lower'],
    ['text of PowerShell', Buffer.from(`${KEY} host-1`, 'utf16le').toString(), 'fleet.keys is no UTF-8 text'],
    ['more than a name', `${KEY} host-1 host-2`, 'line 1 of fleet.keys must be sha256:'],
    ['a fingerprint that is cut off', `${KEY.slice(0, -1)} host-1`, 'line 1 of fleet.keys must be sha256:'],
    ['a key of two nodes', `${KEY} host-1\n${KEY} host-2`, 'line 2 of fleet.keys gives host-2 the key of host-1'],
    [
      'too many keys',
      Array.from({ length: 5_001 }, (_, at) => `sha256:${String(at).padStart(64, '0')} n${at}`).join('\n'),
      'line 5001 of fleet.keys is one too many',
    ],
  ])('is refused with %s', (_what, text, fault) => {
    expect(() => parse(`${text}\n`)).toThrow(fault);
  });
});

it.each([
  ['host-1.example.com', 'host-1.example.com'],
  ['Host_1', 'host-1'],
  ['-Bordrechner Süd.', 'bordrechner-s-d'],
  ['(', 'node'],
])('takes the line that is suggested for the host %s', (host, name) => {
  expect(nameOfHost(host)).toBe(name);
  expect(parse(`${KEY} ${nameOfHost(host)}\n`).get(KEY)).toBe(name);
});

it('is refused when its last line may be cut off', () => {
  const fault = 'fleet.keys is empty or does not end with a line break';
  for (const text of ['', `${OTHER} host-2\n${KEY} host-1`]) expect(() => parse(text)).toThrow(fault);
});

describe('the key of a node', () => {
  const base = folderForEach();
  const stateDir = () => join(base, 'state-fleet');
  const settings = () => ({ keys_file: join(base, 'fleet.keys'), exclude: [] });
  const keeper = (log = createRecordingLog()) =>
    new IdentityKeeper({ way: byKeys(settings(), stateDir(), log), clock: systemClock, log });
  /** Twice, since a list may still be in the middle of being copied. */
  const look = async (kept: IdentityKeeper) => {
    for (const _ of [1, 2]) await kept.refresh(NEVER_ABORTED);
  };
  const read = async (log = createRecordingLog()) => {
    const found = await byKeys(settings(), stateDir(), log).read(NEVER_ABORTED);
    if ('refusal' in found) throw found.refusal;
    return found;
  };

  /** Makes a key, and lists it. */
  async function listed(name: string): Promise<string> {
    mkdirSync(base, { recursive: true });
    await read().catch(() => undefined);
    const [key = ''] = (await ownKeyLine(settings(), stateDir())).split(' ');
    writeFileSync(settings().keys_file, `${key} ${name}\n`);
    return key;
  }

  it('stays the same, and so does its name, which the list gives', async () => {
    const key = await listed('host-1');
    const [one, again] = [await read(), await read()];
    expect([one.identity.node, again.identity.node]).toEqual(['host-1', 'host-1']);
    expect([...(again.identity.keys ?? [])]).toEqual([[key, 'host-1']]);
    expect(await ownKeyLine(settings(), stateDir())).toBe(`${key} host-1`);
  });

  it('is replaced when it is another kind of key, with a line that says so', async () => {
    const key = await listed('host-1');
    const { privateKey } = generateKeyPairSync('ed25519');
    writeFileSync(join(stateDir(), 'key.pem'), privateKey.export({ type: 'pkcs8', format: 'pem' }));
    const log = createRecordingLog();
    await expect(read(log)).rejects.toThrow('does not list this node');
    expect(log.lines.map(({ message }) => message)).toEqual([expect.stringContaining('so this node has a new key')]);
    expect(await ownKeyLine(settings(), stateDir())).not.toContain(key);
  });

  it('stays where it can not be read', async () => {
    mkdirSync(join(stateDir(), 'key.pem'), { recursive: true });
    await expect(read()).rejects.toThrow("key.pem can't be read");
  });

  it('is needed for the list to be read: a list that is too large is refused', async () => {
    await listed('host-1');
    writeFileSync(settings().keys_file, '#'.repeat(1024 * 1024 + 1));
    await expect(read()).rejects.toThrow('has 1048577 bytes');
    expect(readFileSync(join(stateDir(), 'key.pem'), 'utf8')).toContain('PRIVATE KEY');
  });

  it('is nobody after its line is removed, and keeps no other key either', async () => {
    const key = await listed('host-1');
    writeFileSync(settings().keys_file, `${key} host-1\n${OTHER} host-2\n`);
    const kept = keeper();
    await kept.refresh(NEVER_ABORTED);
    expect([kept.current()?.node, kept.fault()]).toEqual(['host-1', undefined]);
    writeFileSync(settings().keys_file, '# by a loop of ssh that failed for this node\n');
    await look(kept);
    expect(kept.current()).toBeUndefined();
    expect(kept.fault()).toMatch(/does not list this node: .*; no other node is reached before that is mended$/);
    writeFileSync(settings().keys_file, `${key} host-1\n`);
    await kept.refresh(NEVER_ABORTED);
    expect([...(kept.current()?.keys?.keys() ?? [])]).toEqual([key]);
    expect(kept.fault()).toBeUndefined();
  });

  it('has no other list while that one is still being copied', async () => {
    const key = await listed('host-1');
    const both = `${key} host-1\n${OTHER} host-2\n`;
    writeFileSync(settings().keys_file, both);
    const kept = keeper();
    await look(kept);
    const names = () => [...(kept.current()?.keys?.values() ?? [])];
    for (const part of ['', `${key} host-1\n`, `${both}${`sha256:${'c'.repeat(64)}`} host-3\n`]) {
      writeFileSync(settings().keys_file, part);
      await kept.refresh(NEVER_ABORTED);
      expect([names(), kept.fault()]).toEqual([['host-1', 'host-2'], undefined]);
    }
    await kept.refresh(NEVER_ABORTED);
    expect(names()).toEqual(['host-1', 'host-2', 'host-3']);
  });

  it('that can not be read takes no removed key along', async () => {
    const key = await listed('host-1');
    writeFileSync(settings().keys_file, `${key} host-1\n${OTHER} host-2\n`);
    const kept = keeper();
    await kept.refresh(NEVER_ABORTED);
    rmSync(join(stateDir(), 'key.pem'));
    mkdirSync(join(stateDir(), 'key.pem'));
    writeFileSync(settings().keys_file, `${key} host-1\n`);
    await look(kept);
    expect(kept.current()).toBeUndefined();
  });

  it('stays in use with the list before while the list is wrong or half written', async () => {
    const key = await listed('host-1');
    const log = createRecordingLog();
    const kept = keeper(log);
    await kept.refresh(NEVER_ABORTED);
    const before = kept.current();
    let news = 0;
    kept.onChange(() => {
      news += 1;
    });
    for (const text of [`${key} host-1\nnonsense\n`, `${key} host-1`]) {
      writeFileSync(settings().keys_file, text);
      await look(kept);
      expect(kept.current()).toBe(before);
      expect(kept.fault()).toMatch(/fleet\.keys .*; the keys from before stay in use$/);
      expect(kept.fault()).not.toContain('it needs the line');
      expect(log.lines.at(-1)?.message).toContain('the keys from before stay in use');
    }
    // Written again as it was.
    writeFileSync(settings().keys_file, `# again\n${key} host-1\n`);
    await look(kept);
    expect([kept.current(), kept.fault(), news]).toEqual([before, undefined, 3]);
  });

  it('has no other list than that which is there, also when it is written all the time as it was', async () => {
    const key = await listed('host-1');
    writeFileSync(settings().keys_file, `${key} host-1\n${OTHER} host-2\n`);
    const kept = keeper();
    await kept.refresh(NEVER_ABORTED);
    for (const seconds of [10, 20]) {
      writeFileSync(settings().keys_file, `${key} host-1\n`);
      utimesSync(settings().keys_file, seconds, seconds);
      await kept.refresh(NEVER_ABORTED);
    }
    expect([...(kept.current()?.keys?.values() ?? [])]).toEqual(['host-1']);
  });

  it('has no fault once the list before is there again, untouched', async () => {
    const key = await listed('host-1');
    const [link, whole] = [settings().keys_file, join(base, 'whole.keys')];
    const pointTo = (path: string) => {
      rmSync(link, { force: true });
      symlinkSync(path, link);
    };
    writeFileSync(whole, `${key} host-1\n`);
    pointTo(whole);
    const kept = keeper();
    await kept.refresh(NEVER_ABORTED);
    pointTo(join(base, 'absent.keys'));
    await look(kept);
    expect(kept.fault()).toMatch(/fleet\.keys is not there; .*; the keys from before stay in use$/);
    pointTo(whole);
    await look(kept);
    expect([kept.current()?.node, kept.fault()]).toEqual(['host-1', undefined]);
  });

  it.each([0o664, 0o646])('counts no list that others may write (%o)', async (mode) => {
    await listed('host-1');
    chmodSync(settings().keys_file, mode);
    await expect(read()).rejects.toThrow('others than root may write it');
  });

  it('is refused where no certificate was sent', () => {
    expect(checkKey(undefined, new Map())).toMatchObject({ kind: 'refused', cause: 'no-certificate' });
  });
});

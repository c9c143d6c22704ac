import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openRegistryToken } from '../../../../src/store/files/registry-token.ts';
import { createRecordingLog } from '../../../support/recording-log.ts';

let folder: string;
let path: string;
let log: ReturnType<typeof createRecordingLog>;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'stickpin-token-'));
  path = join(folder, 'registry-token');
  log = createRecordingLog();
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const modeOf = () => statSync(path).mode & 0o7777;

describe('openRegistryToken', () => {
  it('creates a token once, readable by root only, and reads it again', async () => {
    const token = await openRegistryToken(path, log);
    expect(token).toMatch(/^[0-9a-f]{32}$/);
    expect(modeOf()).toBe(0o600);
    expect(await openRegistryToken(path, log)).toBe(token);
    chmodSync(path, 0o644);
    expect(await openRegistryToken(path, log)).toBe(token);
    expect(modeOf()).toBe(0o600);
  });

  it.each<[string, () => void]>([
    ['a lost file', () => undefined],
    ['an empty file', () => writeFileSync(path, '')],
    ['other text', () => writeFileSync(path, '../../etc/passwd')],
    ['a token with more behind it', () => writeFileSync(path, `${'0'.repeat(32)}\n0`)],
    ['a large file', () => writeFileSync(path, Buffer.alloc(1024 * 1024, '0'))],
    ['a folder', () => mkdirSync(join(path, 'below'), { recursive: true })],
    ['a link', () => symlinkSync(join(folder, 'elsewhere'), path)],
    ['what a power cut left of the writing', () => writeFileSync(`${path}.stickpin-new`, 'half')],
  ])('replaces %s', async (_what, damage) => {
    damage();
    const token = await openRegistryToken(path, log);
    expect(readFileSync(path, 'utf8')).toBe(`${token}\n`);
    expect(await openRegistryToken(path, log)).toBe(token);
    expect(log.lines).toEqual([]);
  });

  it('continues with a token that can not be stored, and reports that', async () => {
    writeFileSync(join(folder, 'file'), '');
    const lost = join(folder, 'file', 'registry-token');
    expect(await openRegistryToken(lost, log)).toMatch(/^[0-9a-f]{32}$/);
    expect(log.lines.map(({ message }) => message)).toEqual([
      expect.stringMatching(/^The token of the mirrors can't be stored in .*registry-token: not a directory \(ENOTDIR/),
    ]);
  });
});

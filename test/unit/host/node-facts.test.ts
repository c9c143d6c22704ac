import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { nodeFacts } from '../../../src/host/node-facts.ts';
import { BUILT_AT } from '../../../src/platform/version.ts';

let folder: string;
let machineId: string;
let localTime: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'stickpin-facts-'));
  machineId = join(folder, 'machine-id');
  localTime = join(folder, 'localtime');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const facts = () => nodeFacts({ machineId, localTime });

describe('the facts about a node', () => {
  it('are the machine id, the time zone and when the program was built', () => {
    writeFileSync(machineId, `${'0123456789abcdef'.repeat(2)}\n`);
    symlinkSync('../usr/share/zoneinfo/Europe/Berlin', localTime);
    expect(facts()).toEqual({
      builtAt: BUILT_AT,
      machineId: '0123456789abcdef'.repeat(2),
      timeZone: 'Europe/Berlin',
    });
  });

  it.each(['', 'uninitialized\n', '0'.repeat(32), 'A'.repeat(32), '0123'])('have no machine id in %j', (content) => {
    writeFileSync(machineId, content);
    expect(facts().machineId).toBeUndefined();
  });

  it('have no machine id and UTC where both files are absent', () => {
    expect(facts()).toEqual({ builtAt: BUILT_AT, machineId: undefined, timeZone: 'UTC' });
  });

  it.each([
    ['/usr/share/zoneinfo/posix/America/Sao_Paulo', 'America/Sao_Paulo'],
    ['/usr/share/zoneinfo/Etc/UTC', 'Etc/UTC'],
    ['/elsewhere/Berlin', 'UTC'],
  ])('follow the link %s to %s', (target, zone) => {
    symlinkSync(target, localTime);
    expect(facts().timeZone).toBe(zone);
  });

  it('take the zone of the program where localtime is a file', () => {
    writeFileSync(localTime, 'TZif2');
    expect(facts().timeZone).toBe(new Intl.DateTimeFormat().resolvedOptions().timeZone);
  });
});

import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { goArch, nodeFacts, rememberClockAnswer } from '../../../src/host/node-facts.ts';
import { BUILT_AT } from '../../../src/platform/version.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';

const folder = folderForEach();
let machineId: string;
let localTime: string;
beforeEach(() => {
  machineId = join(folder, 'machine-id');
  localTime = join(folder, 'localtime');
});

const facts = () => nodeFacts({ machineId, localTime, kubelet: [join(folder, 'none'), join(folder, 'kubelet')] });

describe('the facts about a node', () => {
  it('are the machine id, the time zone and when the program was built', () => {
    writeFileSync(machineId, `${'0123456789abcdef'.repeat(2)}\n`);
    symlinkSync('../usr/share/zoneinfo/Europe/Berlin', localTime);
    expect(facts()).toEqual({
      builtAt: BUILT_AT,
      machineId: '0123456789abcdef'.repeat(2),
      timeZone: 'Europe/Berlin',
      hasKubelet: false,
    });
  });

  it.each(['', 'uninitialized\n', '0'.repeat(32), 'A'.repeat(32), '0123'])('have no machine id in %j', (content) => {
    writeFileSync(machineId, content);
    expect(facts().machineId).toBeUndefined();
  });

  it('have no machine id and UTC where both files are absent', () => {
    expect(facts()).toEqual({ builtAt: BUILT_AT, machineId: undefined, timeZone: 'UTC', hasKubelet: false });
  });

  it('have a kubelet where one of the folders is that kubelets keep', () => {
    mkdirSync(join(folder, 'kubelet'));
    expect(facts().hasKubelet).toBe(true);
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

it('queries whether the clock is synchronised once in ten minutes, and again at once after no answer', async () => {
  const { signal } = new AbortController();
  const answers = [undefined, false, true, undefined, true];
  let timeMs = 0;
  const query = rememberClockAnswer(async () => answers.shift(), { monotonic: () => timeMs });
  const seen: unknown[] = [];
  for (const atMs of [0, 1, 2, 599_999, 600_001, 1_200_000, 1_200_001, 1_200_002]) {
    timeMs = atMs;
    seen.push([atMs, await query(signal), answers.length]);
  }
  expect(seen).toEqual([
    [0, false, 4],
    [1, false, 3],
    [2, false, 3],
    [599_999, false, 3],
    [600_001, true, 2],
    [1_200_000, true, 2],
    [1_200_001, false, 1],
    [1_200_002, true, 0],
  ]);
});

describe('goArch', () => {
  it.each([
    ['x64', 'LE', 'amd64'],
    ['arm64', 'LE', 'arm64'],
    ['ppc64', 'LE', 'ppc64le'],
    ['ppc64', 'BE', 'ppc64'],
    ['s390x', 'BE', 's390x'],
  ] as const)('%s %s is %s', (arch, order, expected) => {
    expect(goArch(arch as NodeJS.Architecture, order)).toBe(expected);
  });
});

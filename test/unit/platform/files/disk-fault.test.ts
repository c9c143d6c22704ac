import { readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  diskFaultMessage,
  diskFaultOf,
  probeDisk,
  visibleDiskFault,
} from '../../../../src/platform/files/disk-fault.ts';
import { temporaryFolder } from '../../../support/files/temporary-folder.ts';

const failure = (code: string, cause?: unknown) => Object.assign(new Error(code, { cause }), { code });

describe('disk faults', () => {
  it.each([
    ['ENOSPC', 'full'],
    ['SQLITE_FULL', 'full'],
    ['EDQUOT', 'quota'],
    ['EROFS', 'read-only'],
    ['EACCES', undefined],
    ['SQLITE_CORRUPT', undefined],
  ])('%s is %s', (code, fault) => {
    expect(diskFaultOf(failure(code))).toBe(fault);
    expect(diskFaultOf(failure('store/blob', failure(code)))).toBe(fault);
  });

  it('are none where nothing was thrown', () => {
    expect(diskFaultOf(undefined)).toBeUndefined();
  });

  it('name the path, the reason and what to do', () => {
    expect(diskFaultMessage('/var/lib/stickpin', 'full')).toMatch(/^\/var\/lib\/stickpin .* full .*make room on it$/);
    expect(diskFaultMessage('/var/lib/stickpin', 'quota')).toMatch(/quota .*make room or raise the quota$/);
    expect(diskFaultMessage('/var/lib/stickpin', 'read-only')).toMatch(/read-only.*remount it writable$/);
  });

  it('are not found in a writable directory, in which no file is left', () => {
    const directory = temporaryFolder();
    expect(probeDisk(directory)).toBeUndefined();
    expect(visibleDiskFault(directory)).toBeUndefined();
    expect(readdirSync(directory)).toEqual([]);
  });

  it('are not found in a missing directory', () => {
    expect([probeDisk('/nowhere/at/all'), visibleDiskFault('/nowhere/at/all')]).toEqual([undefined, undefined]);
  });
});

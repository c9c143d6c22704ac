import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, onTestFinished, TestRunner } from 'vitest';

/**
 * Undoes something when the running test has ended, after its hooks; what was made last is undone
 * first. In `beforeAll` no test runs: there the caller undoes it.
 */
export function atEnd(undo: () => void | Promise<void>): void {
  if (TestRunner.getCurrentTest() !== undefined) onTestFinished(undo);
}

/** Makes a folder that is removed when the test has ended. For tests and `beforeEach`. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'stickpin-test-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** The path of a folder that each test of the file or the `describe` finds empty. */
export function folderForEach(): string {
  const folder = freePath();
  beforeEach(() => {
    mkdirSync(folder, { mode: 0o700 });
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  });
  return folder;
}

/** The path of a folder that all tests of the file or the `describe` share. */
export function folderForAll(): string {
  const folder = freePath();
  beforeAll(() => void mkdirSync(folder, { mode: 0o700 }));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Nothing is made before a hook, so that skipped tests leave nothing behind. */
function freePath(): string {
  return join(tmpdir(), `stickpin-test-${randomBytes(6).toString('hex')}`);
}

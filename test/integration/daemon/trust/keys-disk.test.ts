import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { sampleKey } from '../../../support/bundles/sample-bundle.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { mounting } from '../../../support/files/small-disk.ts';
import { have } from '../../../support/requirements.ts';

/** Its first page is never mapped, so that a read from its begin fails with EIO. */
const UNREADABLE = `/proc/${process.pid}/mem`;

describe.runIf(have('root', mounting))('a file in keys.d that gives EIO', () => {
  let node: DaemonHarness;
  /** The file that is mounted over. */
  let broken: string | undefined;

  beforeEach(async () => {
    node = await createDaemonHarness();
    broken = undefined;
  });
  afterEach(async () => {
    await node.stop();
    mend();
    await node.dispose();
  });
  const breakFile = (name: string, content: string): void => {
    const path = join(node.keysFolder, name);
    writeFileSync(path, content, { mode: 0o644 });
    execFileSync('mount', ['--bind', UNREADABLE, path]);
    broken = path;
  };

  const mend = (): void => {
    if (broken !== undefined) execFileSync('umount', [broken]);
    broken = undefined;
  };

  it.each([
    { name: 'stolen.revoked', content: `${sampleKey('stolen').privateKey.keyId}\n` },
    { name: 'other.pub', content: sampleKey('other').publicPem },
  ])('lets nothing be trusted ($name) until it can be read; STATUS names the file and the error', async (file) => {
    breakFile(file.name, file.content);
    await node.start((await node.make()).path);
    const report = await node.until(({ rejected }) => rejected.length > 0);
    expect(report.trust).toMatchObject({ keys: [], revocationsUnreadable: true });
    expect(report.bundles).toEqual([]);
    expect(report.status).toMatch(/: Nothing is trusted, since revocations can't be read: .*EIO/);
    expect(report.status).toContain(join(node.keysFolder, file.name));
    mend();
    node.daemon().reloadKeys();
    await node.until(({ bundles }) => bundles[0]?.phase === 'activated');
    expect(node.report().trust.revocationsUnreadable).toBe(false);
  });
});

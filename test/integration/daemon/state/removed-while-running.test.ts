import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { makeSampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { createDaemonHarness } from '../../../support/daemon/daemon-harness.ts';

it('database files that are removed under the daemon are named in STATUS; a restart knows the release again', async () => {
  const factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
  const harness = await createDaemonHarness();
  const bundle = await makeSampleBundle({ dir: factory, keys: [harness.key] });
  const directory = harness.settings.paths.state_dir;
  try {
    await harness.start();
    harness.plug(bundle.path);
    await harness.until(({ bundles }) => bundles[0]?.phase === 'activated');
    await harness.rounds(2);
    for (const name of readdirSync(directory)) {
      if (name.startsWith('state.db')) rmSync(join(directory, name));
    }
    harness
      .daemon()
      .engine.commands.reject({ bundle: bundle.bundleId.replace(/.$/, (last) => (last === '0' ? '1' : '0')) });
    harness.daemon().engine.kick();
    const report = await harness.until(({ status }) =>
      /state\.db were removed.*systemctl restart stickpin/.test(status),
    );
    expect(report.bundles.map(({ phase }) => phase)).toEqual(['activated']);
    await harness.stop();
    await harness.start();
    await harness.until(({ bundles, status }) => bundles[0]?.phase === 'activated' && !status.includes('were removed'));
  } finally {
    await harness.dispose();
    rmSync(factory, { recursive: true, force: true });
  }
});

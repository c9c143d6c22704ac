import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { sampleImage, writeOciLayout } from '../../support/bundles/sample-image.ts';
import { commandsOf } from '../../support/docs/marked-blocks.ts';
import { runBlocks, stickpinOnPath } from '../../support/docs/run-blocks.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';
import { have } from '../../support/requirements.ts';

/**
 * What it shows for nodes is run in machines, by test/e2e/bookworm.test.ts and packages.test.ts.
 */
const README = 'README.md';
const repository = fileURLToPath(new URL('../../../', import.meta.url));

const directory = folderForAll();

describe(README, () => {
  it('makes a stick in the factory that verifies and rehearses, with the commands that it shows', async () => {
    writeOciLayout(join(directory, 'etcd'), [
      { image: sampleImage({ seed: 'etcd', architecture: 'amd64' }), names: ['3.5.9'] },
    ]);
    const programs = await stickpinOnPath(join(directory, 'bin'));
    const said = await runBlocks([commandsOf(README, 'factory')], { directory, programs });
    expect(said).toMatch(/^\S.*ocp 4\.13\.7.*: signature by factory-2026 ok, \d+ of \d+ blobs read and right$/m);
    expect(said).toMatch(/^Verdict: ocp 4\.13\.7 loads, and all its images are pinned\.$/m);
  });

  it.runIf(have('npm'))('has a demo that ends with every image pinned', async () => {
    const commands = commandsOf(README, 'demo');
    expect(commands).toMatch(/^npm ci\n/);
    // This working tree has the modules already that `npm ci` puts into it.
    const said = await runBlocks([commands.replace('npm ci', ':')], {
      directory: repository,
      programs: dirname(process.execPath),
      env: { HOME: directory, npm_config_offline: 'true' },
    });
    expect(said).toMatch(
      /STATUS=IDLE: No bundle yet\. Waiting for a stick\.[\s\S]+STATUS=DONE: ocp 4\.13\.7 is installed\. Remove the stick\./,
    );
    const rows = said.slice(said.indexOf('IMAGE ')).trim().split('\n').slice(1);
    expect(rows).toHaveLength(6);
    for (const row of rows) expect(row).toMatch(/ 4\.13\.7 +yes$/);
  });
});

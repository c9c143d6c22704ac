import { expect, it } from 'vitest';
import { renderShow } from '../../../../src/cli/output/render/render-show.ts';
import { signAnew } from '../../../support/bundles/signed-payload.ts';
import { createDaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { runCommand } from '../../../support/run-command.ts';

it('a bundle of a later version: what may be ignored is named once and shown, also after a restart', async () => {
  const node = await createDaemonHarness();
  await node.start();
  const bundle = await node.make();
  signAnew(bundle.path, [node.key], { colour: 'red' });
  const { stdout } = await runCommand(['bundle', 'verify', bundle.path, '--keys', node.settings.trust.keys_dir]);
  expect(stdout).toContain('  it has colour, which this stickpin ignores\n');
  node.plug(bundle.path);
  const named = () => node.history().filter(({ message }) => message.includes('does not know and ignores colour'));
  const shown = await node.until(({ bundles }) => bundles[0]?.phase === 'activated');
  expect(shown.bundles[0]?.ignored).toEqual(['colour']);
  expect(named()).toHaveLength(1);
  await node.restart();
  const { bundles } = await node.until((report) => report.bundles[0]?.phase === 'activated');
  expect(renderShow(bundles[0] ?? expect.unreachable(), undefined)).toContain(
    'ignored:      colour, unknown when stickpin read the bundle\n',
  );
  expect(named()).toHaveLength(1);
});

it('a bundle with a member that must not be ignored is refused, with what to do', async () => {
  const node = await createDaemonHarness();
  await node.start();
  const bundle = await node.make();
  signAnew(bundle.path, [node.key], { restriction: 'none', critical: ['restriction'] });
  node.plug(bundle.path);
  const { rejected } = await node.until((report) => report.rejected.length > 0);
  expect(rejected[0]?.reason).toMatchObject({
    code: 'bundle/schema-version',
    message: expect.stringMatching(/does not know member "restriction", which must not be ignored; update stickpin/),
  });
});

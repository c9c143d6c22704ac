import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import * as v from 'valibot';
import { beforeAll, describe, expect, it } from 'vitest';
import { FACTORY_DOCUMENTS } from '../../../../src/cli/schema/factory-documents.ts';
import { sampleImage, writeOciLayout } from '../../../support/bundles/sample-image.ts';
import { startServing } from '../../../support/bundles/served-bundle.ts';
import { folderForAll } from '../../../support/files/temporary-folder.ts';
import { runCommand } from '../../../support/run-command.ts';

type Name = keyof typeof FACTORY_DOCUMENTS;

const root = folderForAll();
const at = (name: string) => join(root, name);

/** What differs from the schema, as `member.of: message`; nothing when it fits. */
function faultsOf(name: Name, stdout: string): readonly string[] {
  const { issues = [] } = v.safeParse(FACTORY_DOCUMENTS[name], JSON.parse(stdout));
  return issues.map(({ message, path }) => `${path?.map(({ key }) => key).join('.')}: ${message}`);
}

async function expectFit(name: Name, ...args: readonly string[]): Promise<void> {
  const { stdout, stderr } = await runCommand([...args, '--json'], { env: { TMPDIR: root } });
  expect(stdout, stderr).not.toBe('');
  expect(faultsOf(name, stdout)).toEqual([]);
}

beforeAll(() => {
  mkdirSync(at('keys'));
  mkdirSync(at('stick/stickpin'), { recursive: true });
  writeOciLayout(at('layout'), [
    { image: sampleImage({ seed: 'etcd', architecture: 'amd64' }), names: ['etcd'] },
    { image: sampleImage({ seed: 'proxy', architecture: 'amd64', withIndex: true }), names: ['proxy'] },
  ]);
});

/** Tests lean on the ones before. */
describe('what commands of the factory print for programs', () => {
  it('is what the schemas say, from a key to a stick', async () => {
    const bundle = at('stick/stickpin/ocp');
    await expectFit('keygen', 'keygen', '--out', at('keys/factory'));
    await expectFit(
      'bundle-create',
      ...['bundle', 'create', '--name', 'ocp', '--version', '4.13.7', '--arch', 'amd64', '--sequence', '7'],
      ...['--image', `quay.example.com/coreos/etcd:3.5.9=oci:${at('layout')}:etcd`],
      ...['--image', `quay.example.com/edge/proxy:1=oci:${at('layout')}:proxy`],
      ...['--expires', '2031-01-01T00:00:00Z', '--out', bundle],
    );
    const named = ['bundle', 'create', '--name', 'ocp', '--version', '4.13.8', '--arch', 'amd64', '--sequence', '8'];
    const image = `quay.example.com/coreos/etcd:3.5.9=oci:${at('layout')}:etcd`;
    const volumes = ['--image', image, '--out', at('volumes')];
    await expectFit('bundle-create', ...named, ...volumes, '--volume-size', '5MB');
    await expectFit('bundle-create-plan', ...named, ...volumes.slice(0, 2), '--out', at('plan'), '--dry-run');
    await expectFit('bundle-sign', 'bundle', 'sign', bundle, '--key', at('keys/factory.key'));
    await expectFit('bundle-inspect', 'bundle', 'inspect', bundle);
    await expectFit('bundle-verify', 'bundle', 'verify', bundle, '--keys', at('keys'), '--full');
    await expectFit('bundle-rehearse', 'bundle', 'rehearse', bundle, '--keys', at('keys'));
    const served = await startServing(bundle);
    await served.stop();
    expect(faultsOf('bundle-serve', JSON.stringify(served.report))).toEqual([]);
    await expectFit('bundle-envelope', 'bundle', 'envelope', bundle, '--out', at('stick/stickpin/envelope'));
    await expectFit('bundle-verify', 'bundle', 'verify', at('stick'), '--keys', at('keys'));
  });

  it('is what the schemas say of bad bundles too', async () => {
    rmSync(at('stick/stickpin/ocp/index.json'));
    mkdirSync(at('stick/stickpin/empty'));
    await expectFit('bundle-verify', 'bundle', 'verify', at('stick'), '--keys', at('keys'));
  });

  it('is what the schema of config show says', async () => {
    await expectFit('config-show', 'config', 'show');
  });
});

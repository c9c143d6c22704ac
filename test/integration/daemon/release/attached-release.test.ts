import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parsePublicKey } from '../../../../src/bundle/keys/keys.ts';
import { createBundle } from '../../../../src/factory/create-bundle.ts';
import { parseAttachmentRequest } from '../../../../src/factory/payload/attachments.ts';
import { sampleCreateOptions } from '../../../support/bundles/create-options.ts';
import { installRole } from '../../../support/bundles/role-file.ts';
import { hostArch, type SampleKey, sampleKey } from '../../../support/bundles/sample-bundle.ts';
import { createDaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const UNIT = 'stickpin-self-update.service';

describe('a release of attached files alone', () => {
  const dir = folderForEach();
  const factory = sampleKey('factory-2026');
  const customer = sampleKey('customer');

  async function make(sequence: number, key: SampleKey, name = 'stickpin'): Promise<string> {
    const out = join(dir, `${name}-${sequence}`);
    mkdirSync(join(dir, `${sequence}`));
    const file = join(dir, `${sequence}`, `stickpin_1.${sequence}.0_amd64.deb`);
    writeFileSync(file, `package ${sequence}`);
    const attachments = [parseAttachmentRequest(file)];
    const own = { name, version: `1.${sequence}.0`, sequence, arch: hostArch, attachments, keys: [key.privateKey] };
    const options = sampleCreateOptions(out, [], own);
    return (await createBundle(options, new AbortController().signal)).path;
  }

  async function start() {
    const runs: { readonly unit: string; readonly package: string }[] = [];
    const keyId = parsePublicKey(factory.publicPem, factory.name).keyId;
    const node = await createDaemonHarness({
      keys: [factory, customer],
      settings: {
        hooks: { activated: UNIT },
        streams: { stickpin: { units: [UNIT], unit_keys: [keyId] } },
      },
      hookRunner: {
        run: async (unit, environment) => {
          const [, folder = ''] = /^STICKPIN_ATTACHMENTS="?([^"\n]*)"?$/m.exec(environment) ?? [];
          const [, version = ''] = /^STICKPIN_VERSION="?([^"\n]*)"?$/m.exec(environment) ?? [];
          runs.push({ unit, package: readFileSync(join(folder, `stickpin_${version}_amd64.deb`), 'utf8') });
          return undefined;
        },
      },
    });
    await node.start();
    return { node, runs };
  }

  it('is loaded, activated with its files, and proven by the verdict of its unit', async () => {
    const { node, runs } = await start();
    for (const sequence of [1, 2]) {
      node.plug(await make(sequence, factory));
      const { status } = await node.until(() => runs.length === sequence);
      expect(status).toContain(`stickpin 1.${sequence}.0`);
      expect(status).toContain('It is activated: no images, 1 attached file.');
      const { bundles } = node.report();
      const bundle = bundles.find(({ version }) => version === `1.${sequence}.0`);
      expect(bundle).toMatchObject({ phase: 'activated', images: { total: 0 } });
      node.engine.commands.prove({ bundle: `stickpin@1.${sequence}.0` });
      await node.until((report) =>
        report.bundles.some((one) => one.version === `1.${sequence}.0` && one.phase === 'proven'),
      );
      await node.takeOut();
    }
    expect(runs).toEqual([1, 2].map((sequence) => ({ unit: UNIT, package: `package ${sequence}` })));
    const phases = node.report().bundles.map(({ version, phase }) => [version, phase]);
    expect(Object.fromEntries(phases)).toEqual({ '1.1.0': 'superseded', '1.2.0': 'proven' });
    node.engine.commands.rollback({ stream: 'stickpin' });
    await node.until(() => runs.length === 3);
    expect(runs[2]?.package).toBe('package 1');
  });

  it('starts nothing when a key of a customer signed stream stickpin, and says so', async () => {
    const { node, runs } = await start();
    node.plug(await make(1, customer));
    const why = 'since no key of unit_keys of its stream signed the release';
    const { status } = await node.until((report) => report.status.includes('hook activated failed'));
    expect(status).toContain("see 'stickpin status'");
    expect(JSON.stringify(node.report())).toContain(`${UNIT} is not started, ${why}`);
    expect(runs).toEqual([]);
  });

  it('is refused of a role that may sign no images', async () => {
    const { node, runs } = await start();
    const advisor = sampleKey('advisor');
    installRole(node.keysFolder, 'advisor', { keys: [advisor], streams: ['stickpin'], repositories: [] });
    node.plug(await make(1, advisor));
    await node.until(({ rejected }) => rejected.length === 1);
    expect([runs, node.report().bundles]).toEqual([[], []]);
  });

  it('starts nothing for another stream', async () => {
    const { node, runs } = await start();
    node.plug(await make(1, factory, 'edge'));
    await node.until(({ bundles }) => bundles[0]?.phase === 'activated');
    await node.rounds();
    expect(runs).toEqual([]);
  });
});

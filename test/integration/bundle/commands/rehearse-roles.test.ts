import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseImageRequest } from '../../../../src/bundle/image-request.ts';
import { createBundle } from '../../../../src/factory/create-bundle.ts';
import { sampleCreateOptions } from '../../../support/bundles/create-options.ts';
import { installRole, type RoleFileOptions } from '../../../support/bundles/role-file.ts';
import { hostArch, installKeys, makeSampleBundle, sampleKey } from '../../../support/bundles/sample-bundle.ts';
import { sampleArtifact, sampleImage, writeOciLayout } from '../../../support/bundles/sample-image.ts';
import { makeNotice } from '../../../support/bundles/signed-payload.ts';
import { createDaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { runCommand } from '../../../support/run-command.ts';

const [customer, second, platform] = [sampleKey('customer'), sampleKey('second'), sampleKey('platform')];

const dir = folderForEach();

/** A bundle with one image, signed by the customer unless the case says otherwise. */
async function customerBundle({
  name = 'customer-app',
  repository = 'registry.example.com/cust/app',
  keys = [customer],
}) {
  const images = [{ reference: `${repository}:1`, image: sampleImage({ seed: 'app' }) }];
  return (await makeSampleBundle({ dir, name, version: '1.0.0', keys, images })).path;
}
const rotation = async (trust: object) => makeNotice(dir, { name: 'customer-notes', trust }, [customer]).path;

interface Case {
  readonly when: string;
  readonly role?: RoleFileOptions;
  /** What else lies in the folder of keys. */
  readonly beside?: (folder: string) => void;
  readonly bundle: () => Promise<string>;
  /** Part of the reason for which both refuse it; absent when both take it. */
  readonly refused?: string;
}

const cases: readonly Case[] = [
  { when: 'the role covers it', bundle: () => customerBundle({}) },
  {
    when: 'the role does not cover its stream',
    bundle: () => customerBundle({ name: 'ocp' }),
    refused: 'role customer may not sign for stream ocp, only for customer-*',
  },
  {
    when: 'the role does not cover its repository',
    bundle: () => customerBundle({ repository: 'quay.example.com/coreos/etcd' }),
    refused: 'role customer may not sign stream customer-app for repository quay.example.com/coreos/etcd',
  },
  {
    when: 'the name of its repository only begins like one of the role',
    bundle: () => customerBundle({ repository: 'registry.example.com/customer' }),
    refused: 'for repository registry.example.com/customer',
  },
  {
    when: 'too few keys of the role signed it, beside a plain key that is not trusted',
    role: { keys: [customer, second], threshold: 2 },
    bundle: () => customerBundle({ keys: [customer, platform] }),
    refused: 'and 2 of role customer are required',
  },
  {
    when: 'enough keys of the role signed it',
    role: { keys: [customer, second], threshold: 2 },
    bundle: () => customerBundle({ keys: [customer, second] }),
  },
  {
    when: 'the file of the role has a fault',
    role: { keys: [customer], streams: ['customer/*'] },
    beside: (folder) => installKeys(folder, [platform]),
    bundle: () => customerBundle({}),
    refused: 'unknown key',
  },
  {
    when: 'the key of the role stands in a *.pub file too',
    beside: (folder) => installKeys(folder, [customer, platform]),
    bundle: () => customerBundle({}),
    refused: 'unknown key',
  },
  {
    when: 'the key of the role is revoked',
    beside: (folder) => {
      installKeys(folder, [platform]);
      writeFileSync(join(folder, 'lost.revoked'), customer.publicPem, { mode: 0o644 });
    },
    bundle: () => customerBundle({}),
    refused: 'revoked',
  },
  {
    when: 'the role brings a key of its own and may',
    role: { keys: [customer], mayRotate: true },
    bundle: () => rotation({ role: 'customer', keys: [second.publicPem] }),
  },
  {
    when: 'the role brings a key of its own and may not',
    bundle: () => rotation({ role: 'customer', keys: [second.publicPem] }),
    refused: 'may_rotate = true',
  },
  {
    when: 'the role revokes a plain key',
    role: { keys: [customer], mayRotate: true },
    beside: (folder) => installKeys(folder, [platform]),
    bundle: () => rotation({ revoked: [platform.privateKey.keyId] }),
    refused: 'brings or revokes plain keys',
  },
];

/** The reason for which a node with these keys refuses the bundle; undefined when it takes it. */
async function refusalOfNode(path: string, lay: (folder: string) => void): Promise<string | undefined> {
  const node = await createDaemonHarness({ keys: [] });
  try {
    lay(node.keysFolder);
    await node.start(path);
    const { rejected } = await node.until(
      (report) =>
        report.rejected.length > 0 ||
        report.notices.length > 0 ||
        report.bundles.some((one) => one.phase === 'activated'),
    );
    return rejected[0]?.reason.message;
  } finally {
    await node.dispose();
  }
}

describe('bundle rehearse --keys with roles judges as a node does', () => {
  it.each(cases)('$when', async ({ role = { keys: [customer] }, beside, bundle, refused }) => {
    const path = await bundle();
    const lay = (folder: string) => {
      installRole(folder, 'customer', role);
      beside?.(folder);
    };
    const keys = join(dir, 'keys.d');
    mkdirSync(keys, { mode: 0o755 });
    lay(keys);
    const run = await runCommand(['bundle', 'rehearse', path, '--keys', keys]);
    const nodeRefuses = await refusalOfNode(path, lay);
    if (refused === undefined) {
      expect(nodeRefuses).toBeUndefined();
      expect(run).toMatchObject({ exitCode: 0 });
      expect(run.stdout).toMatch(/\nVerdict: customer-\w+ \S+ (?:loads|is adopted)/);
      return;
    }
    expect(nodeRefuses).toContain(refused);
    expect(run).toMatchObject({ exitCode: 4, stdout: '' });
    // The words are those of the node; only the folder of its keys is another one.
    const words = (text: string) => text.replaceAll(/\S*\/keys\.d/g, 'keys.d');
    expect(words(run.stderr)).toContain(words(nodeRefuses ?? ''));
  });
});

it('bundle rehearse without keys has a role that covers images and artifacts, whose keys the bundle changes', async () => {
  const layout = join(dir, 'layout');
  const model = sampleArtifact({ files: { 'weights.bin': Buffer.alloc(1_000, 'w') } });
  writeOciLayout(layout, [
    { image: sampleImage({ seed: 'app', architecture: hostArch }), names: ['app'] },
    { image: model, names: ['model'] },
  ]);
  const options = sampleCreateOptions(join(dir, 'rotating'), [`registry.example.com/app:1=oci:${layout}:app`], {
    arch: hostArch,
    artifacts: [parseImageRequest(`models.example.com/small:1=oci:${layout}:model`)],
    trust: { role: 'customer', keys: [second.publicPem] },
    keys: [customer.privateKey],
  });
  const { path } = await createBundle(options, new AbortController().signal);
  expect(await runCommand(['bundle', 'rehearse', path])).toMatchObject({ exitCode: 0, stderr: '' });
});

it('bundle rehearse without keys takes a bundle that changes the keys of a role, and judges nobody', async () => {
  const path = await rotation({ role: 'customer', keys: [second.publicPem] });
  const run = await runCommand(['bundle', 'rehearse', path]);
  expect(run).toMatchObject({ exitCode: 0, stderr: '' });
  expect(run.stdout).toContain('signature not judged');
});

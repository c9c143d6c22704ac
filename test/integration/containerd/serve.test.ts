import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CriClient } from '../../../src/runtime/cri/cri-client.ts';
import { makeSampleBundle, type SampleBundle } from '../../support/bundles/sample-bundle.ts';
import { type ServingCommand, startServing } from '../../support/bundles/served-bundle.ts';
import { type Containerd, startContainerd } from '../../support/daemon/runtimes/containerd.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';
import { have } from '../../support/requirements.ts';

describe.runIf(have('root', 'mmdebstrap'))('bundle serve: containerd', () => {
  let containerd: Containerd;
  const root = folderForAll();
  let bundle: SampleBundle;
  let served: ServingCommand;

  beforeAll(async () => {
    bundle = await makeSampleBundle({ dir: root });
    served = await startServing(bundle.path);
    containerd = await startContainerd();
  });
  afterAll(async () => {
    await containerd.stop();
    await served.stop();
  });

  it('pulls by tag with ctr', async () => {
    for (const { digest, tags } of bundle.contents.images) {
      const name = `${served.authority}/${tags[0]}`;
      await containerd.ctr('images', 'pull', '--plain-http', name);
      expect(await containerd.ctr('images', 'ls', `name==${name}`)).toContain(digest);
    }
  });

  it('pulls over CRI, with it as the mirror of a registry', async () => {
    const folder = join(containerd.certsDirectory, 'quay.example.com');
    mkdirSync(folder);
    writeFileSync(
      join(folder, 'hosts.toml'),
      `[host."http://${served.authority}"]\n  capabilities = ["pull", "resolve"]\n`,
    );
    const client = new CriClient({ socketPath: containerd.socketPath, timeoutMs: 60_000 });
    const { signal } = new AbortController();
    try {
      for (const { reference } of bundle.contents.images) {
        await client.pullImage(reference, signal);
        expect((await client.listImages(signal)).flatMap((image) => image.repoDigests)).toContain(reference);
      }
    } finally {
      client.close();
    }
  });
});

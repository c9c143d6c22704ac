import { createSign, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { parseReference } from '../../../../src/domain/model/reference.ts';
import { createBundle } from '../../../../src/factory/create-bundle.ts';
import { hostArch } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage, writeOciLayout } from '../../../support/bundles/sample-image.ts';
import { sampleSignature, signatureTag } from '../../../support/bundles/sample-signature.ts';
import { connectCri } from '../../../support/crio-double/cri/cri-client.ts';
import { type CrioNode, createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { have } from '../../../support/requirements.ts';

const NAME = 'quay.example.com/edge/app:1.0.0';
const image = sampleImage({ seed: 'app', architecture: hostArch });

describe.runIf(have('root', 'mmdebstrap'))(
  'policy.json that demands sigstore signatures, with the CRI-O double',
  () => {
    let node: CrioNode;
    const factory = folderForEach();
    let keys: { publicKey: KeyObject; privateKey: KeyObject };
    let policy: string;

    beforeEach(async () => {
      node = await createCrioNode();
      keys = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
      const { base, policyFile } = node.double().dirs;
      writeFileSync(join(base, 'sigstore.pub'), keys.publicKey.export({ type: 'spki', format: 'pem' }));
      const signed = {
        type: 'sigstoreSigned',
        keyPath: join(base, 'sigstore.pub'),
        signedIdentity: { type: 'matchRepository' },
      };
      const transports = { docker: { 'quay.example.com': [signed] } };
      policy = JSON.stringify({ default: [{ type: 'reject' }], transports });
      writeFileSync(policyFile, policy);
    });

    const lookup = () => join(node.double().dirs.registriesD, '99-stickpin.yaml');
    /** A bundle of one image with a signature by this key. */
    const bundleSignedBy = async (key: KeyObject): Promise<string> => {
      const layout = join(factory, 'layout');
      const sign = (payload: Buffer) => createSign('sha256').update(payload).sign(key);
      const signature = sampleSignature(image.top.digest, NAME.replace(/:[^:]*$/, ''), sign);
      writeOciLayout(layout, [
        { image, names: [NAME] },
        { image: signature, names: [signatureTag(image.top.digest)] },
      ]);
      const { path } = await createBundle(
        {
          out: join(factory, 'edge-1.0.0'),
          name: 'edge',
          version: '1.0.0',
          arch: hostArch,
          sequence: 1,
          created: '2026-01-01T00:00:00Z',
          images: [
            {
              reference: parseReference(NAME),
              source: { kind: 'layout', directory: layout, selector: { kind: 'name', name: NAME } },
            },
          ],
          keys: [node.harness.key.privateKey],
        },
        new AbortController().signal,
      );
      return path;
    };

    it('pulls what is signed, the signature from our registry, and leaves no trace when the mirrors go', async () => {
      const path = await bundleSignedBy(keys.privateKey);
      await node.harness.start();
      const done = await node.harness.load(path);
      expect(done.bundles[0]?.images).toEqual({ total: 1, present: 1, pinned: 1 });
      expect(readFileSync(lookup(), 'utf8')).toContain('use-sigstore-attachments: true');
      await node.harness.stop();
      expect(existsSync(lookup())).toBe(false);
    });

    /** Signatures that CRI-O has beside its images. */
    const storedSignatures = () =>
      readFileSync(join(node.double().dirs.graphRoot, 'vfs-images/images.json'), 'utf8').match(/"signature-/) ?? [];
    const acceptAnything = () =>
      writeFileSync(node.double().dirs.policyFile, JSON.stringify({ default: [{ type: 'insecureAcceptAnything' }] }));
    /** Only pods of the namespace `edge` need signatures. CRI-O checks the stored ones. */
    const demandInNamespace = () => {
      const folder = join(node.double().dirs.crioConfig, 'policies');
      mkdirSync(folder);
      for (const name of ['edge.json', 'README']) writeFileSync(join(folder, name), policy);
      return join(folder, 'edge.json');
    };

    it('stores the signature beside the image if only the policy of a namespace demands it', async () => {
      acceptAnything();
      const path = await bundleSignedBy(keys.privateKey);
      await node.harness.start();
      const file = demandInNamespace();
      await node.harness.load(path);
      expect(storedSignatures()).toHaveLength(1);
      rmSync(file);
      await node.harness.rounds();
      await expect.poll(() => existsSync(lookup()), { timeout: 20_000 }).toBe(false);
    });

    it('brings the signature with the next pull, without the stick, if the policy came after the preload', async () => {
      acceptAnything();
      const path = await bundleSignedBy(keys.privateKey);
      await node.harness.start();
      await node.harness.load(path);
      node.harness.unplug();
      await node.harness.until((report) => report.bundles[0]?.media.length === 0);
      expect(storedSignatures()).toEqual([]);
      demandInNamespace();
      await expect.poll(() => existsSync(lookup()), { timeout: 60_000 }).toBe(true);
      const client = connectCri(node.double().socketPath);
      await client.pullImage(NAME).finally(() => client.close());
      expect(storedSignatures()).toHaveLength(1);
    }, 90_000);

    it('pulls nothing that another key has signed, and says that policy.json refuses it', async () => {
      const stranger = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
      const path = await bundleSignedBy(stranger.privateKey);
      await node.harness.start(path);
      const refused = await node.harness.until(({ status }) => status.includes('policy.json of the node refuses'));
      expect(refused.status).toMatch(/^CALL SUPPORT \(R-11\): Preloading edge 1\.0\.0 /);
      expect(refused.advice.text).toMatch(
        /policy\.json .*refuses .*1 image of edge 1\.0\.0|quay\.example\.com\/edge\/app@sha256:/,
      );
      expect(readFileSync(lookup(), 'utf8')).toMatch(
        /"127\.0\.0\.1:\d+\/[0-9a-f]{32}":\n {4}use-sigstore-attachments: true/,
      );
      expect(await node.harness.images()).toEqual([]);
    });
  },
);

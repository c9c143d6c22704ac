import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { sampleImage, sampleLayer } from '../../support/bundles/sample-image.ts';
import { type SourceAndDouble, startSourceAndDouble } from '../../support/crio-double/source-and-double.ts';
import { eventually } from '../../support/eventually.ts';
import { have, program } from '../../support/requirements.ts';
import { skopeoArgv, trixieRoot } from '../../support/rootfs/trixie-root.ts';

const repository = 'quay.example.com/app/web';

describe.runIf(have('root', 'mmdebstrap', program('perl', 'apt-get install perl-base')))(
  'pins of the CRI-O double',
  () => {
    let it_: SourceAndDouble;

    beforeAll(async () => {
      await trixieRoot();
    });
    beforeEach(async () => {
      it_ = await startSourceAndDouble({ skopeo: skopeoArgv() });
    });
    afterEach(() => it_.stop());

    const isPinned = async () => (await it_.client.listImages())[0]?.pinned;

    it('docs/runtime-facts.md, fact 8: a pin matches stored names without regard to case: exact, prefix*, *keyword*', async () => {
      const image = sampleImage({ seed: 'one' });
      it_.source.add('app/web', image, ['v1']);
      await it_.client.pullImage(`${repository}:v1`);
      const outcome: Record<string, boolean | undefined> = {};
      for (const pattern of [
        'QUAY.example.com/app/Web:v1',
        'quay.example.com/app/web',
        'quay.example.com/app/*',
        'example.com/app/*',
        'quay.example.com/other/*',
        '*APP/w*',
        '*nothing*',
        'quay.example.com/app/web:v.',
      ]) {
        await it_.pin(pattern);
        outcome[pattern] = await isPinned();
      }
      expect(outcome).toEqual({
        'QUAY.example.com/app/Web:v1': true,
        'quay.example.com/app/web': false,
        'quay.example.com/app/*': true,
        'example.com/app/*': true,
        'quay.example.com/other/*': false,
        '*APP/w*': true,
        '*nothing*': false,
        'quay.example.com/app/web:v.': false,
      });
    });

    it('docs/runtime-facts.md, fact 8: an image pulled by digest has only the name by digest; pulled by tag it lists both', async () => {
      const image = sampleImage({ seed: 'one' });
      it_.source.add('app/web', image, ['v1']);
      const byDigest = `${repository}@${image.top.digest}`;
      const id = await it_.client.pullImage(byDigest);
      expect(await it_.client.listImages()).toMatchObject([{ id, repo_tags: [], repo_digests: [byDigest] }]);
      await it_.client.pullImage(`${repository}:v1`);
      expect(await it_.client.listImages()).toMatchObject([
        { id, repo_tags: [`${repository}:v1`], repo_digests: [byDigest] },
      ]);
    });

    it('docs/runtime-facts.md, fact 8: the name that was pulled is the one to pin: a digest listed for an image pulled by tag is not a stored name', async () => {
      const image = sampleImage({ seed: 'one' });
      it_.source.add('app/web', image, ['v1']);
      const byDigest = `${repository}@${image.top.digest}`;
      await it_.client.pullImage(`${repository}:v1`);
      await it_.pin(byDigest);
      expect(await it_.client.listImages()).toMatchObject([{ repo_digests: [byDigest], pinned: false }]);
      await it_.client.pullImage(byDigest);
      expect(await isPinned()).toBe(true);
    });

    it('docs/runtime-facts.md, fact 9: ListImages and ImageStatus report pinned right after the reload', async () => {
      const image = sampleImage({ seed: 'one' });
      it_.source.add('app/web', image);
      const byDigest = `${repository}@${image.top.digest}`;
      await it_.client.pullImage(byDigest);
      expect(await isPinned()).toBe(false);
      await it_.pin(byDigest);
      expect(await isPinned()).toBe(true);
      expect(await it_.client.imageStatus(byDigest)).toMatchObject({ pinned: true });
      await it_.pin();
      expect(await it_.client.imageStatus(byDigest)).toMatchObject({ pinned: false });
    });

    it('docs/runtime-facts.md, fact 5: after a bad registries configuration the old pins stay in effect, also when GET /config shows others', async () => {
      const image = sampleImage({ seed: 'one' });
      it_.source.add('app/web', image, ['v1']);
      await it_.client.pullImage(`${repository}:v1`);
      const broken = join(it_.double.dirs.registriesDropIns, '90-bad.conf');
      writeFileSync(broken, 'not toml');
      await expect(it_.pin(`${repository}:v1`)).rejects.toThrow(/system registries reload failed/);
      expect(await isPinned()).toBe(false);
      writeFileSync(broken, '');
      expect(await it_.double.reloadAndWait()).toBeUndefined();
      expect(await isPinned()).toBe(true);
    });

    it('docs/runtime-facts.md, fact 10: a name belongs to one image: pulling a tag that names another image moves it', async () => {
      const [old, fresh] = [sampleImage({ seed: 'old' }), sampleImage({ seed: 'fresh' })];
      it_.source.add('app/web', old, ['v1']);
      const oldId = await it_.client.pullImage(`${repository}:v1`);
      it_.source.add('app/web', fresh, ['v1']);
      const freshId = await it_.client.pullImage(`${repository}:v1`);
      const images = new Map((await it_.client.listImages()).map((image) => [image.id, image]));
      expect(images.get(oldId)).toMatchObject({ repo_tags: [], repo_digests: [`${repository}@${old.top.digest}`] });
      expect(images.get(freshId)).toMatchObject({ repo_tags: [`${repository}:v1`] });
    });

    it('docs/runtime-facts.md, fact 10: RemoveImage removes a pinned image', async () => {
      it_.source.add('app/web', sampleImage({ seed: 'one' }), ['v1']);
      await it_.pin('*web*');
      await it_.client.pullImage(`${repository}:v1`);
      expect(await isPinned()).toBe(true);
      await it_.client.removeImage(`${repository}:v1`);
      expect(await it_.client.listImages()).toEqual([]);
    });

    it('removing one of several names keeps the image; removing by id takes them all', async () => {
      const image = sampleImage({ seed: 'one' });
      it_.source.add('app/web', image, ['v1', 'v2']);
      const byDigest = `${repository}@${image.top.digest}`;
      for (const name of [`${repository}:v1`, `${repository}:v2`, byDigest]) await it_.client.pullImage(name);
      await it_.client.removeImage(`${repository}:v1`);
      expect(await it_.client.listImages()).toMatchObject([
        { repo_tags: [`${repository}:v2`], repo_digests: [byDigest] },
      ]);
      await it_.client.removeImage(byDigest);
      await it_.pin(byDigest);
      expect(await it_.client.listImages()).toMatchObject([{ repo_tags: [`${repository}:v2`], pinned: false }]);
      const [{ id } = { id: '' }] = await it_.client.listImages();
      await it_.client.pullImage(`${repository}:v1`);
      await it_.client.removeImage(id);
      expect(await it_.client.listImages()).toEqual([]);
    });

    it('a name that is removed while a pull runs stays removed when the pull has ended', async () => {
      const layer = sampleLayer({ seed: 'layer' });
      it_.source.add('app/web', sampleImage({ seed: 'one' }), ['v1', 'v2']);
      it_.source.add('app/db', sampleImage({ seed: 'two', layers: [layer] }), ['v1']);
      await it_.client.pullImage(`${repository}:v1`);
      await it_.client.pullImage(`${repository}:v2`);
      it_.source.breakDown(layer.digest, { kind: 'stall', atByte: 100 });
      const pull = it_.client.pullImage('quay.example.com/app/db:v1');
      await eventually(() => expect(it_.source.getCount(layer.digest)).toBe(1));
      await it_.client.removeImage(`${repository}:v1`);
      it_.source.mend(layer.digest);
      await pull;
      const tags = (await it_.client.listImages()).flatMap((image) => image.repo_tags);
      expect(tags.toSorted()).toEqual(['quay.example.com/app/db:v1', `${repository}:v2`]);
    });

    it('removing what is not there is no error, nor is asking for it', async () => {
      await it_.client.removeImage(`${repository}:v9`);
      await it_.client.removeImage('0'.repeat(64));
      expect(await it_.client.imageStatus(`${repository}:v9`)).toBeUndefined();
    });
  },
);

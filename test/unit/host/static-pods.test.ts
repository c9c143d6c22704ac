import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { StaticPods } from '../../../src/host/static-pods.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';

const pod = (name: string, image: string, policy = '') =>
  `apiVersion: v1\nkind: Pod\nmetadata: {name: ${name}, namespace: kube-system}\nspec:\n  containers:\n  - {name: c, image: '${image}'${policy === '' ? '' : `, imagePullPolicy: ${policy}`}}\n`;

describe('StaticPods', () => {
  const { signal } = new AbortController();
  const root = folderForEach();
  let folder: string;
  beforeEach(() => {
    folder = join(root, 'manifests');
    mkdirSync(folder);
  });
  const read = () => new StaticPods([folder]).images(signal);

  it('reads each file that the kubelet would read', async () => {
    writeFileSync(join(folder, 'etcd.yaml'), pod('etcd', 'quay.io/coreos/etcd:v3.5', 'Always'));
    writeFileSync(join(folder, 'api'), JSON.stringify({ kind: 'Pod', spec: { containers: [{ image: 'a.io/b:1' }] } }));
    writeFileSync(join(folder, '.hidden.yaml'), pod('hidden', 'quay.io/x/hidden:1'));
    mkdirSync(join(folder, 'folder.yaml'));
    symlinkSync(join(folder, 'etcd.yaml'), join(folder, 'link.yaml'));
    symlinkSync('/nonexistent', join(folder, 'dangling.yaml'));
    expect(await read()).toEqual({
      uses: [
        { usedBy: 'container (no name)', image: 'a.io/b:1' },
        { usedBy: 'Pod kube-system/etcd, container c', image: 'quay.io/coreos/etcd:v3.5', pullPolicy: 'Always' },
        { usedBy: 'Pod kube-system/etcd, container c', image: 'quay.io/coreos/etcd:v3.5', pullPolicy: 'Always' },
      ],
      faults: [],
      isComplete: true,
    });
  });

  it('gives one line for each bad file, and reads the others', async () => {
    writeFileSync(join(folder, 'a.yaml'), 'a: {');
    writeFileSync(join(folder, 'b.yaml'), Buffer.alloc(256 * 1024 + 1, 0x20));
    writeFileSync(join(folder, 'c.yaml'), pod('c', 'quay.io/x/c:1'));
    execFileSync('mkfifo', [join(folder, 'd.yaml')]);
    const { uses, faults, isComplete } = await read();
    expect(uses.map(({ image }) => image)).toEqual(['quay.io/x/c:1']);
    expect(isComplete).toBe(true);
    expect(faults.map(({ message }) => message)).toEqual([
      expect.stringMatching(/^static pod .*a\.yaml can't be read: .*a\.yaml:1: is not YAML: [^\n]*$/),
      expect.stringMatching(/b\.yaml is larger than 262144 bytes/),
    ]);
  });

  it('reads the rest of a folder with too many files, and says so', async () => {
    for (let at = 0; at < 130; at += 1) writeFileSync(join(folder, `${at}.yaml`), pod(`p${at}`, `quay.io/x/p${at}:1`));
    const { uses, faults, isComplete } = await read();
    expect(uses).toHaveLength(128);
    expect(isComplete).toBe(false);
    expect(faults[0]?.message).toMatch(/has more than 128 files/);
  });

  it('reads a file again when it changed', async () => {
    const pods = new StaticPods([folder]);
    const images = async () => (await pods.images(signal)).uses.map(({ image }) => image);
    writeFileSync(join(folder, 'a.yaml'), pod('a', 'quay.io/x/a:1'));
    expect(await images()).toEqual(['quay.io/x/a:1']);
    expect(await images()).toEqual(['quay.io/x/a:1']);
    writeFileSync(join(folder, 'a.yaml'), pod('a', 'quay.io/x/a:22'));
    expect(await images()).toEqual(['quay.io/x/a:22']);
    rmSync(join(folder, 'a.yaml'));
    expect(await images()).toEqual([]);
  });

  it('finds the folder that the configuration of the kubelet names, besides the usual ones', async () => {
    const [config, json, named] = [join(root, 'config.yaml'), join(root, 'config.json'), join(root, 'named')];
    mkdirSync(named);
    writeFileSync(join(named, 'a'), pod('a', 'quay.io/x/a:1'));
    writeFileSync(join(folder, 'b'), pod('b', 'quay.io/x/b:1'));
    const places = { kubeletConfigs: [config, json, join(root, 'absent')], folders: [folder, join(root, 'none')] };
    const images = async () => (await new StaticPods(undefined, places).images(signal)).uses.map((use) => use.image);
    writeFileSync(config, 'not: [yaml');
    writeFileSync(json, '{"staticPodPath": 5}');
    expect(await images()).toEqual(['quay.io/x/b:1']);
    writeFileSync(config, `kind: KubeletConfiguration\nstaticPodPath: ${named}\n`);
    writeFileSync(json, JSON.stringify({ staticPodPath: folder }));
    expect(await images()).toEqual(['quay.io/x/a:1', 'quay.io/x/b:1']);
    writeFileSync(config, `staticPodPath: named\n`);
    expect(await images()).toEqual(['quay.io/x/b:1']);
  });

  it("says when a folder can't be listed", async () => {
    const loop = join(root, 'loop');
    symlinkSync('loop', loop);
    const { faults, isComplete } = await new StaticPods([loop]).images(signal);
    expect(isComplete).toBe(false);
    expect(faults[0]?.message).toMatch(
      /^the static pods in .*loop can't be listed: too many symbolic links encountered \(ELOOP/,
    );
  });

  it('never throws, whatever is in a file', async () => {
    const parts = fc.constantFrom('a', ': ', '\n', '- ', '{', '}', '&x ', '*x', '"', 'image', 'containers', '---\n');
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.array(parts), fc.array(fc.string())), async (words) => {
        writeFileSync(join(folder, 'x.yaml'), words.join(''));
        const { uses, faults } = await read();
        expect(faults.length).toBeLessThanOrEqual(1);
        for (const { image } of uses) expect(image).not.toBe('');
      }),
      { numRuns: 60 },
    );
  });
});

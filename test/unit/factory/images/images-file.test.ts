import { truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { parseImageRequest } from '../../../../src/bundle/image-request.ts';
import { parseImagesFile, readImagesFile } from '../../../../src/factory/images/images-file.ts';
import { temporaryFolder } from '../../../support/files/temporary-folder.ts';

const DIGEST = `sha256:${'a'.repeat(64)}`;

describe('parseImagesFile', () => {
  it('reads what --image takes, with options and comments', () => {
    const text = [
      '\ufeff# the platform',
      `quay.io/coreos/etcd:3.5.9@${DIGEST}`,
      '',
      '\tedge=quay.io/edge/proxy:1=oci:/media/images:proxy # by the edge team\r',
      'docker.io/customer/app:7   pin=false',
      '  #quay.io/not/this:1',
      'quay.io/last/one:1 pin=true',
    ].join('\n');
    expect(parseImagesFile(text, 'images.txt')).toEqual([
      { ...parseImageRequest(`quay.io/coreos/etcd:3.5.9@${DIGEST}`), origin: 'images.txt:2' },
      { ...parseImageRequest('edge=quay.io/edge/proxy:1=oci:/media/images:proxy'), origin: 'images.txt:4' },
      { ...parseImageRequest('docker.io/customer/app:7'), pin: false, origin: 'images.txt:5' },
      { ...parseImageRequest('quay.io/last/one:1'), pin: true, origin: 'images.txt:7' },
    ]);
  });

  it('takes short names from the registry that is named, and leaves other names alone', () => {
    const text = 'nginx:1.25\nbitnami/redis:7 pin=false\nown:1=oci:/media:own\nweb=own:2\nquay.io/a/b:1\n';
    expect(parseImagesFile(text, 'f', 'docker.io').map(({ origin: _, ...request }) => request)).toEqual([
      parseImageRequest('docker.io/library/nginx:1.25'),
      { ...parseImageRequest('docker.io/bitnami/redis:7'), pin: false },
      parseImageRequest('docker.io/library/own:1=oci:/media:own'),
      parseImageRequest('web=docker.io/library/own:2'),
      parseImageRequest('quay.io/a/b:1'),
    ]);
  });

  it('takes an empty list', () => {
    expect(parseImagesFile('\n# nothing\n', 'f')).toEqual([]);
  });

  it.each([
    ['etcd:3.5.9', 'begin with a registry'],
    ['library/etcd', 'begin with a registry'],
    [`\${IMAGE}:1`, 'is a placeholder, not an image: name the image itself'],
    ['auto', 'is a placeholder'],
    ['quay.io/a/b:1 pin=no', "'pin=no' is not an option"],
    ['quay.io/a/b:1 Pin=false', "'Pin=false' is not an option"],
    ['quay.io/a/b:1 quay.io/a/c:1', "'quay.io/a/c:1' is not an option"],
    ['quay.io/a/b:1 pin=true pin=false', 'twice'],
    ['quay.io/a/b:1=nowhere', 'transport'],
    ['quay.io/a/b:1@sha256:12', 'sha256'],
    ['quay.io/a/b:1#comment', 'is not a tag'],
  ])('names the line of %j', (line, why) => {
    expect(() => parseImagesFile(`# first\n${line}\n`, 'dir/images.txt')).toThrow(
      expect.objectContaining({
        code: 'bundle/option',
        message: expect.stringMatching(/^dir\/images\.txt:2: /),
      }),
    );
    expect(() => parseImagesFile(line, 'f')).toThrow(why);
  });
});

describe('readImagesFile', () => {
  const { signal } = new AbortController();
  let root: string;
  beforeEach(() => {
    root = temporaryFolder();
  });

  it('reads UTF-16 with a byte order mark', async () => {
    writeFileSync(join(root, 'f'), Buffer.from('\ufeffquay.io/a/b:1\r\n', 'utf16le'));
    expect(await readImagesFile(join(root, 'f'), signal)).toEqual([
      { ...parseImageRequest('quay.io/a/b:1'), origin: `${join(root, 'f')}:1` },
    ]);
  });

  it('names a file that is not there, no file or too large', async () => {
    const large = join(root, 'large');
    writeFileSync(large, '');
    truncateSync(large, 4 * 1024 * 1024 + 1);
    for (const path of [join(root, 'absent'), root, large]) {
      await expect(readImagesFile(path, signal)).rejects.toMatchObject({
        code: path === large ? 'bundle/option' : 'bundle/source',
        message: expect.stringContaining(path),
      });
    }
  });
});

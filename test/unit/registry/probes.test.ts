import { describe, expect, it } from 'vitest';
import { parseImageDocument } from '../../../src/bundle/format/oci-schema.ts';
import { digestOf } from '../../../src/platform/digest.ts';
import { Probes } from '../../../src/registry/probes.ts';

describe('Probes', () => {
  it('offers a manifest by its own digest, under the mirror path of its repository alone', () => {
    const probes = new Probes();
    const digest = probes.offer('localhost:5000/app', '1');
    const bytes = probes.manifest('localhost__5000/app', digest) ?? Buffer.alloc(0);
    expect(digestOf(bytes)).toBe(digest);
    expect(probes.manifest('quay.io/app', digest)).toBeUndefined();
    expect(probes.manifest('localhost__5000/app', digestOf('other'))).toBeUndefined();
  });

  it('offers an image whose configuration is known to be a probe', () => {
    const probes = new Probes();
    const digest = probes.offer('quay.io/app', '1');
    const document = parseImageDocument(
      probes.manifest('quay.io/app', digest) ?? Buffer.alloc(0),
      'it',
      'bundle/inconsistent',
    );
    if (document.kind !== 'manifest') throw new Error(document.kind);
    expect(document.layers).toEqual([]);
    expect(probes.isConfig(document.config.digest)).toBe(true);
    expect(probes.isConfig(digest)).toBe(false);
  });

  it('gives each seed another digest, and keeps the last ones only', () => {
    const probes = new Probes();
    const digests = Array.from({ length: 100 }, (_, count) => probes.offer('quay.io/app', String(count)));
    expect(new Set(digests).size).toBe(100);
    const kept = digests.filter((digest) => probes.manifest('quay.io/app', digest) !== undefined);
    expect(kept).toEqual(digests.slice(-64));
  });
});

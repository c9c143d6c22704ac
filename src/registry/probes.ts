import { mediaTypes } from '../bundle/format/oci-schema.ts';
import type { Digest } from '../domain/model/digest.ts';
import { mirrorPathOf } from '../domain/model/reference.ts';
import { digestOf } from '../platform/digest.ts';
import type { MirrorProbes } from '../ports/transfers.ts';

/** A runtime may come for an aborted one a little later. */
const KEPT = 64;

/**
 * A probe is an image manifest whose configuration exists nowhere. A runtime selects the source of
 * an image at its manifest (docs/runtime-facts.md, fact 12). So after this manifest it uses no
 * other registry, and its pull fails.
 */
export class Probes implements MirrorProbes {
  private readonly probes = new Map<string, { readonly bytes: Buffer; readonly config: Digest }>();

  offer(repository: string, seed: string): Digest {
    const config = digestOf(`stickpin mirror probe ${repository} ${seed}`);
    const bytes = Buffer.from(manifestText(config));
    const digest = digestOf(bytes);
    this.probes.set(`${mirrorPathOf(repository)}@${digest}`, { bytes, config });
    for (const key of [...this.probes.keys()].slice(0, -KEPT)) this.probes.delete(key);
    return digest;
  }

  manifest(mirrorPath: string, digest: string): Buffer | undefined {
    return this.probes.get(`${mirrorPath}@${digest}`)?.bytes;
  }

  /** No source ever has the configuration of a probe. */
  isConfig(digest: Digest): boolean {
    return [...this.probes.values()].some(({ config }) => config === digest);
  }
}

function manifestText(config: Digest): string {
  return JSON.stringify({
    schemaVersion: 2,
    mediaType: mediaTypes.ociManifest,
    config: { mediaType: mediaTypes.ociConfig, digest: config, size: 2 },
    layers: [],
  });
}

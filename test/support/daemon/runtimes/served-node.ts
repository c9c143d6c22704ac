import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeSampleBundle, type SampleBundle } from '../../bundles/sample-bundle.ts';
import type { SampleImage } from '../../bundles/sample-image.ts';
import { mirrorToml } from '../../crio-double/source-and-double.ts';
import { trixieRoot } from '../../rootfs/trixie-root.ts';
import { type SourceRegistry, startSourceRegistry } from '../../source-registry.ts';
import type { SettingsOverrides } from '../daemon-harness.ts';
import { publishMoved } from '../origin.ts';
import { type CrioNode, createCrioNode } from './crio-node.ts';

/**
 * A node with the CRI-O double, an activated release whose stick is gone, and a registry of the
 * network.
 */
export interface ServedNode {
  readonly node: CrioNode;
  /** It has all images. The tag of the first one names {@link ServedNode.moved} there. */
  readonly origin: SourceRegistry;
  readonly bundle: SampleBundle;
  readonly moved: SampleImage;
  /** Of the image at this place of the contents. */
  tagOf(index: number): string;
  referenceOf(index: number): string;
  /**
   * A new folder that everybody may read, in which skopeo finds what it reads on the node:
   * use it as HOME.
   */
  home(): string;
  dispose(): Promise<void>;
}

/** Activates the sample release with these settings, and pulls the stick out. Needs root. */
export async function createServedNode(settings: SettingsOverrides = {}): Promise<ServedNode> {
  await trixieRoot();
  const factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
  const origin = await startSourceRegistry();
  const files = { 'etc/containers/registries.conf.d/50-origin.conf': mirrorToml('quay.example.com', origin.host) };
  const node = await createCrioNode(settings, { files });
  const bundle = await makeSampleBundle({ dir: factory, keys: [node.harness.key] });
  const moved = publishMoved(origin, bundle);
  const { harness } = node;
  await harness.start();
  harness.plug(bundle.path);
  await harness.until((report) => report.bundles[0]?.phase === 'activated' && report.operation === 'idle');
  harness.unplug();
  await harness.until((report) => report.bundles[0]?.media.length === 0);
  origin.forget();
  return {
    node,
    origin,
    bundle,
    moved,
    tagOf: (index) => bundle.contents.images[index]?.tags[0] ?? '',
    referenceOf: (index) => bundle.contents.images[index]?.reference ?? '',
    home: () => layHome(node),
    dispose: async () => {
      await node.dispose();
      await origin.close();
      rmSync(factory, { recursive: true, force: true });
    },
  };
}

function layHome(node: CrioNode): string {
  const home = mkdtempSync(join(node.harness.base, 'home-'));
  const folder = join(home, '.config/containers');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'registries.conf'), '');
  // With the files that links lead to, and with their modes.
  cpSync(node.double().dirs.registriesDropIns, join(folder, 'registries.conf.d'), {
    recursive: true,
    dereference: true,
  });
  return home;
}

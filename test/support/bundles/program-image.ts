import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { execute } from '../rootfs/execute.ts';
import { trixieRoot } from '../rootfs/trixie-root.ts';
import {
  layerOfTar,
  type SampleImage,
  type SampleLayer,
  sampleImage,
  sampleLayer,
  writeOciLayout,
} from './sample-image.ts';
import { tarArchive } from './tar-archive.ts';

/** What the sandbox of a pod is made from, by the name that containerd 1.7 has built in. */
export const sandboxImage = 'registry.k8s.io/pause:3.8';

/**
 * Runs until it is told to end, and ends well then. A process with the id 1 ignores signals that it
 * has no handler for.
 */
const command = ['/bin/busybox', 'sh', '-c', "trap 'exit 0' TERM; /bin/busybox sleep 2147483647 & wait"];

/**
 * The layer with the one program, a statically linked busybox of trixie (about 1 MiB compressed).
 * Needs root, as `trixieRoot()` does.
 */
export async function programLayer(): Promise<SampleLayer> {
  const program = await readFile(join(await trixieRoot(), 'usr/bin/busybox'));
  return layerOfTar(tarArchive([{ path: 'bin/' }, { path: 'bin/busybox', bytes: program, mode: 0o755 }]));
}

/**
 * An image whose containers run, as no other sample image's do: over the program's layer lies one
 * of its own, made from the seed.
 */
export function programImage(seed: string, program: SampleLayer): SampleImage {
  return sampleImage({ seed, layers: [program, sampleLayer({ seed })], command });
}

/**
 * Writes an archive with {@link sandboxImage} into the folder, for `ctr images import`, and returns
 * its path.
 */
export async function writeSandboxImage(folder: string): Promise<string> {
  const layout = join(folder, 'sandbox-image');
  writeOciLayout(layout, [{ image: programImage('sandbox', await programLayer()), names: [sandboxImage] }]);
  await execute(['tar', '--create', '--file', `${layout}.tar`, '--directory', layout, '.']);
  await rm(layout, { recursive: true });
  return `${layout}.tar`;
}

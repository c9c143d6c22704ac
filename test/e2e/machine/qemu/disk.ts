import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type BuildOptions, buildOnce } from '../../../support/rootfs/build-cache.ts';
import { debianRoot, FILE_CONTEXTS, rootRecipe, type Suite } from '../../../support/rootfs/debian-root.ts';
import { execute } from '../../../support/rootfs/execute.ts';
import { argvIn } from '../../../support/rootfs/trixie-root.ts';
import { initrdImage } from './initrd.ts';

/**
 * A file on the guest's disk from the start: its content, a file of the host, the target of a
 * symbolic link, or one of Debian's taken away.
 */
export type GuestFile =
  | { readonly path: string; readonly content: string | Buffer; readonly mode?: number }
  | { readonly path: string; readonly source: string; readonly mode?: number }
  | { readonly path: string; readonly link: string }
  | { readonly path: string; readonly absent: true };

/**
 * What QEMU boots. The files are never written to; the disk holds 4 GiB of ext4 without a partition
 * table.
 */
export interface MachineImage {
  readonly disk: string;
  readonly diskFormat: 'raw' | 'qcow2';
  readonly kernel: string;
  readonly initrd: string;
  /** What the kernel is given beside what every machine has. */
  readonly kernelArguments: string;
  /**
   * How fast the processor counts, in kHz, as an earlier boot has measured it. Undefined: each boot
   * measures it.
   */
  readonly tscKhz?: number;
}

const recipeVersion = 2;

/** Without `audit` the kernel keeps silent about what SELinux denies. */
const ENFORCING = 'security=selinux enforcing=1 audit=1 audit_backlog_limit=8192';

/**
 * The image in the cache, made of a Debian root folder with `files` laid over it; built when the
 * cache lacks it (about 4 s), or `anew`.
 */
export async function machineImage(
  suite: Suite,
  files: readonly GuestFile[],
  options: BuildOptions = {},
): Promise<MachineImage> {
  const fingerprints = await Promise.all(files.map(fingerprint));
  const recipe = { version: recipeVersion, root: rootRecipe(suite), files: fingerprints };
  const directory = await buildOnce('machine', recipe, (partial) => buildImage(partial, suite, files), options);
  const path = (name: string) => join(directory, name);
  const kernelArguments = suite === 'selinux' ? ENFORCING : 'audit=0';
  const [disk, kernel, initrd] = [path('disk.img'), path('vmlinuz'), path('initrd.img')];
  return { disk, diskFormat: 'raw', kernel, initrd, kernelArguments };
}

async function buildImage(directory: string, suite: Suite, files: readonly GuestFile[]): Promise<void> {
  const root = await debianRoot(suite);
  const [kernelRelease] = await readdir(join(root, 'usr/lib/modules'));
  if (kernelRelease === undefined) throw new Error(`no kernel in ${root}`);
  await copyFile(join(root, 'boot', `vmlinuz-${kernelRelease}`), join(directory, 'vmlinuz'));
  await writeFile(join(directory, 'initrd.img'), await initrdImage(root, kernelRelease));
  await buildDisk(directory, root, files);
}

/**
 * Root folder and additions are joined by a read-only overlay, so neither is copied before mkfs
 * reads them.
 */
async function buildDisk(directory: string, root: string, files: readonly GuestFile[]): Promise<void> {
  const additions = join(directory, 'additions');
  const joined = join(directory, 'joined');
  await mkdir(joined);
  await mkdir(additions);
  for (const file of files) await place(additions, file);
  // The root folder has its labels.
  if (existsSync(join(root, FILE_CONTEXTS))) {
    await execute(argvIn(root, 'setfiles', '-mFT0', '-r', additions, FILE_CONTEXTS, additions));
  }
  const script =
    'mount -t overlay overlay -o "ro,lowerdir=$0:$1" "$2" && exec mkfs.ext4 -q -F -m 0 -O ^metadata_csum -E lazy_itable_init=0,root_owner=0:0 -d "$2" "$3" 4G';
  const disk = join(directory, 'disk.img');
  await execute(['unshare', '--mount', '--propagation', 'private', 'sh', '-c', script, additions, root, joined, disk]);
  await rm(additions, { recursive: true });
  await rm(joined, { recursive: true });
}

async function place(additions: string, file: GuestFile): Promise<void> {
  const target = join(additions, file.path);
  await mkdir(dirname(target), { recursive: true });
  if ('link' in file) return symlink(file.link, target);
  if ('absent' in file) return whiteOut(target);
  const content = 'source' in file ? await readFile(file.source) : file.content;
  await writeFile(target, content, { mode: file.mode ?? 0o644 });
}

/**
 * Overlayfs hides what lies below a character device 0/0 (Documentation/filesystems/overlayfs,
 * "whiteouts").
 */
async function whiteOut(target: string): Promise<void> {
  await execute(['mknod', target, 'c', '0', '0']);
}

async function fingerprint(file: GuestFile): Promise<unknown> {
  if ('link' in file || 'absent' in file) return file;
  const content = 'source' in file ? await readFile(file.source) : file.content;
  return { path: file.path, mode: file.mode, sha256: createHash('sha256').update(content).digest('hex') };
}

import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundleCrioDouble, criProtoFile } from '../../../support/crio-double/bundle.ts';
import type { GuestFile } from '../qemu/disk.ts';

const sources = fileURLToPath(new URL('../../../support/crio-double/', import.meta.url));

/**
 * The CRI-O double as a package would install it: program, units, and the configuration directories
 * that CRI-O expects.
 */
export async function crioDoubleFiles(): Promise<GuestFile[]> {
  const directory = await mkdtemp(join(tmpdir(), 'crio-double-bundle-'));
  try {
    const bundle = join(directory, 'main.cjs');
    await bundleCrioDouble(bundle);
    return [
      { path: '/usr/lib/crio-double/main.cjs', content: await readFile(bundle) },
      { path: '/usr/lib/crio-double/api.proto', source: criProtoFile },
      { path: '/usr/lib/systemd/system/crio.service', source: join(sources, 'crio.service') },
      { path: '/usr/lib/systemd/system/crio-wipe.service', source: join(sources, 'crio-wipe.service') },
      { path: '/etc/crio/crio.conf', content: '' },
      { path: '/etc/crio/crio.conf.d/10-crio.conf', content: '[crio.runtime]\nlog_level = "info"\n' },
    ];
  } finally {
    await rm(directory, { recursive: true });
  }
}

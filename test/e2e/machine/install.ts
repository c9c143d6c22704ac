import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { execute } from '../../support/rootfs/execute.ts';
import type { Machine } from './machine.ts';

/** What is on the node beside stickpin itself when it starts for the first time. */
export interface InstallOptions {
  /** Public keys for `/etc/stickpin/keys.d`: PEM by file name without `.pub`. Default none. */
  readonly keys?: Readonly<Record<string, string>>;
  /** A fragment for `/etc/stickpin/stickpin.toml.d`, as TOML text. Default none. */
  readonly configuration?: string;
  /** Default true: the service runs when this returns. */
  readonly start?: boolean;
}

const repository = fileURLToPath(new URL('../../../', import.meta.url));

/**
 * Installs stickpin the way a user does: makes the archive of this working tree, unpacks it in the guest and runs its `install.sh`. Again on
 * the same machine it is an update. Returns what the script printed.
 */
export async function installStickpin(machine: Machine, options: InstallOptions = {}): Promise<string> {
  for (const [name, pem] of Object.entries(options.keys ?? {})) {
    await machine.putFile(`/etc/stickpin/keys.d/${name}.pub`, pem);
  }
  if (options.configuration !== undefined) {
    await machine.putFile('/etc/stickpin/stickpin.toml.d/50-test.toml', options.configuration);
  }
  const archive = await machine.share(await makeArchive());
  await machine.output(
    `rm -rf /root/stickpin && mkdir -p /root/stickpin && tar -xf ${archive} -C /root/stickpin --strip-components=1`,
  );
  const start = options.start === false ? '--no-start' : '';
  return machine.output(`/root/stickpin/install.sh ${start}`, { timeoutMs: 180_000 });
}

let archiveMade: Promise<string> | undefined;

/** Once a test file: the working tree doesn't change under it. */
function makeArchive(): Promise<string> {
  archiveMade ??= (async () => {
    await execute([process.execPath, join(repository, 'packaging/package.mjs')], { cwd: repository });
    const { version } = JSON.parse(await readFile(join(repository, 'package.json'), 'utf8')) as { version: string };
    return join(repository, 'dist', `stickpin-${version}-linux-${process.arch}.tar.gz`);
  })();
  return archiveMade;
}

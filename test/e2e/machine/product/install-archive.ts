import type { Machine } from '../machine.ts';

/** What is on the node beside stickpin itself when it starts for the first time. */
export interface InstallOptions {
  /** Public keys for `/etc/stickpin/keys.d`: PEM by file name without `.pub`. Default none. */
  readonly keys?: Readonly<Record<string, string>>;
  /** A fragment for `/etc/stickpin/stickpin.toml.d`, as TOML text. Default none. */
  readonly configuration?: string;
  /** Default true: the service runs when this returns. */
  readonly start?: boolean;
}

/**
 * Installs stickpin the way a user does: unpacks its archive, a file of the host, in the guest and runs its `install.sh`. Again on the same machine it
 * is an update. Returns what the script printed.
 */
export async function installArchive(machine: Machine, archive: string, options: InstallOptions): Promise<string> {
  for (const [name, pem] of Object.entries(options.keys ?? {})) {
    await machine.putFile(`/etc/stickpin/keys.d/${name}.pub`, pem);
  }
  if (options.configuration !== undefined) {
    await machine.putFile('/etc/stickpin/stickpin.toml.d/50-test.toml', options.configuration);
  }
  const shared = await machine.share(archive);
  await machine.output(
    `rm -rf /root/stickpin && mkdir -p /root/stickpin && tar -xf ${shared} -C /root/stickpin --strip-components=1`,
  );
  const start = options.start === false ? '--no-start' : '';
  return machine.output(`/root/stickpin/install.sh ${start}`);
}

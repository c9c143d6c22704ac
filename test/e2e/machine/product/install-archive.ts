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
 * Installs stickpin the way a user does: unpacks its archive, a file of the host, in the guest and
 * runs its `install.sh`. Again on the same machine it is an update. Returns what the script
 * printed.
 */
export async function installArchive(machine: Machine, archive: string, options: InstallOptions): Promise<string> {
  await unpackArchive(machine, archive);
  return installUnpacked(machine, options);
}

/** The first half of {@link installArchive}. */
export async function unpackArchive(machine: Machine, archive: string): Promise<void> {
  const shared = await machine.share(archive);
  await machine.output(
    `rm -rf /root/stickpin && mkdir -p /root/stickpin && tar -xf ${shared} -C /root/stickpin --strip-components=1`,
  );
}

/** The second half of {@link installArchive}. */
export async function installUnpacked(machine: Machine, options: InstallOptions): Promise<string> {
  await configure(machine, options);
  const start = options.start === false ? '--no-start' : '';
  return machine.output(`/root/stickpin/install.sh ${start}`);
}

/** Starts stickpin on a machine where it is installed, and returns when it is ready. */
export async function startInstalled(machine: Machine, options: Omit<InstallOptions, 'start'>): Promise<void> {
  await configure(machine, options);
  await machine.output('systemctl start stickpin-registry.socket stickpin.service');
}

async function configure(machine: Machine, { keys = {}, configuration }: InstallOptions): Promise<void> {
  for (const [name, pem] of Object.entries(keys)) await machine.putFile(`/etc/stickpin/keys.d/${name}.pub`, pem);
  if (configuration !== undefined) {
    await machine.putFile('/etc/stickpin/stickpin.toml.d/50-test.toml', configuration);
  }
}

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

/** Where {@link copyPackage} puts the package in the guest. */
export const guestPackage = '/root/stickpin.deb';

const UNITS = 'stickpin.service stickpin-registry.socket stickpin-clear-mirrors.service';
const PRESET = '/etc/systemd/system-preset/00-test.preset';

/**
 * Installs stickpin the way a user does: copies its `.deb`, a file of the host, to the guest and
 * has dpkg install it. Again on the same machine it is an update.
 */
export async function installPackage(machine: Machine, deb: string, options: InstallOptions): Promise<void> {
  await copyPackage(machine, deb);
  await installCopied(machine, options);
}

/** The first half of {@link installPackage}. */
export async function copyPackage(machine: Machine, deb: string): Promise<void> {
  await machine.output(`cp ${await machine.share(deb)} ${guestPackage}`);
}

/** The second half of {@link installPackage}. */
export async function installCopied(machine: Machine, options: InstallOptions): Promise<void> {
  await configure(machine, options);
  const install = `dpkg --install ${guestPackage}`;
  if (options.start !== false) {
    await machine.output(install);
    return;
  }
  // What a preset disables is not started. Then the units are enabled after all.
  await machine.putFile(PRESET, 'disable stickpin*\n');
  await machine.output(`${install} && rm ${PRESET} && systemctl preset ${UNITS}`);
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

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { eventually } from '../eventually.ts';
import { freePort } from '../free-port.ts';
import { debianPrograms } from '../rootfs/debian-programs.ts';

const recipe = { version: 1, suite: 'trixie', packages: ['docker-registry'] };

/** `ann` with the password `secret`, in bcrypt. */
export const HTPASSWD = 'ann:$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n';

interface DockerRegistryOptions {
  /** For its files and, by default, its storage. */
  readonly folder: string;
  /** Default `storage` in the folder. */
  readonly storage?: string;
  /** Paths of a key and a certificate. */
  readonly tls?: { readonly key: string; readonly certificate: string };
  /** A password, or tokens of whoever signs with this certificate. */
  readonly auth?: 'password' | { readonly realm: string; readonly certificate: string };
}

export interface DockerRegistry {
  /** `127.0.0.1:PORT`. */
  readonly host: string;
  close(): Promise<void>;
}

/** The path of the program. */
export async function dockerRegistryProgram(): Promise<string> {
  return join(await debianPrograms('docker-registry', recipe), 'docker-registry');
}

/** The registry of Debian's package docker-registry 2.8, which the test cache gets once. */
export async function startDockerRegistry({
  folder,
  storage = join(folder, 'storage'),
  tls,
  auth,
}: DockerRegistryOptions): Promise<DockerRegistry> {
  const program = await dockerRegistryProgram();
  const port = await freePort();
  const htpasswd = join(folder, 'htpasswd');
  writeFileSync(htpasswd, HTPASSWD);
  const config = {
    version: 0.1,
    log: { level: 'error', accesslog: { disabled: true } },
    storage: { filesystem: { rootdirectory: storage }, delete: { enabled: true } },
    http: { addr: `127.0.0.1:${port}`, ...(tls && { tls: { key: tls.key, certificate: tls.certificate } }) },
    ...(auth === 'password' && { auth: { htpasswd: { realm: 'test', path: htpasswd } } }),
    ...(typeof auth === 'object' && {
      auth: { token: { realm: auth.realm, service: 'test', issuer: 'test', rootcertbundle: auth.certificate } },
    }),
  };
  const file = join(folder, `config-${port}.yml`);
  // JSON is YAML.
  writeFileSync(file, JSON.stringify(config));
  const child = spawn(program, ['serve', file], { stdio: 'ignore', env: { OTEL_TRACES_EXPORTER: 'none' } });
  await eventually(() => whenOpen(port));
  return { host: `127.0.0.1:${port}`, close: () => end(child) };
}

async function whenOpen(port: number): Promise<void> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
  } finally {
    socket.destroy();
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Machine } from '../../support/fleet/namespaces.ts';
import type { BenchCluster } from './cluster.ts';

/**
 * Has machines copy all images of the bundle from a registry on another one, each one image after
 * the other, all machines at the same time. Returns the milliseconds until the last one has all.
 */
export async function pullFromRegistry(
  cluster: BenchCluster,
  server: Machine,
  clients: readonly Machine[],
): Promise<number> {
  const [program = '', ...words] = [...server.enter, process.execPath, 'dist/cli/main.js'];
  const listen = `${server.address}:5000`;
  const argv = [...words, 'bundle', 'serve', cluster.bundle.path, '--listen', listen, '--json'];
  const child = spawn(program, argv, { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    await once(createInterface(child.stdout), 'line');
    const startedAt = performance.now();
    await Promise.all(clients.map((client) => pullAll(cluster, client, listen)));
    return performance.now() - startedAt;
  } finally {
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    await ended;
  }
}

async function pullAll({ bundle, base }: BenchCluster, client: Machine, registry: string): Promise<void> {
  for (const [at, { reference }] of bundle.contents.images.entries()) {
    const target = join(base, `pulled-${client.address}-${at}`);
    const source = `docker://${registry}/${reference.slice(reference.indexOf('/') + 1)}`;
    const skopeo = ['skopeo', 'copy', '--quiet', '--src-tls-verify=false', source, `dir:${target}`];
    const [enter = '', ...rest] = [...client.enter, ...skopeo];
    const [code] = await once(spawn(enter, rest, { stdio: 'inherit' }), 'exit');
    if (code !== 0) throw new Error(`skopeo ended with ${code}`);
    rmSync(target, { recursive: true });
  }
}

import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Machine } from '../../support/fleet/namespaces.ts';
import type { BenchCluster } from './cluster.ts';

/**
 * Has a machine copy all images of the bundle from a registry on another one, one after the other,
 * and returns the milliseconds.
 */
export async function pullFromRegistry(cluster: BenchCluster, server: Machine, client: Machine): Promise<number> {
  const { bundle, base } = cluster;
  const [program = '', ...words] = [...server.enter, process.execPath, 'dist/cli/main.js'];
  const argv = [...words, 'bundle', 'serve', bundle.path, '--listen', `${server.address}:5000`, '--json'];
  const child = spawn(program, argv, { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    await once(createInterface(child.stdout), 'line');
    const startedAt = performance.now();
    bundle.contents.images.forEach(({ reference }, at) => {
      const target = join(base, `pulled-${at}`);
      const source = `docker://${server.address}:5000/${reference.slice(reference.indexOf('/') + 1)}`;
      const [enter = '', ...rest] = [
        ...client.enter,
        'skopeo',
        'copy',
        '--quiet',
        '--src-tls-verify=false',
        source,
        `dir:${target}`,
      ];
      execFileSync(enter, rest, { stdio: 'inherit' });
      rmSync(target, { recursive: true });
    });
    return performance.now() - startedAt;
  } finally {
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    await ended;
  }
}

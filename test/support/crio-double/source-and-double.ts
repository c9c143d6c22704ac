import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type SourceRegistry, startSourceRegistry } from '../source-registry.ts';
import { connectCri, type TestCriClient } from './cri/cri-client.ts';
import { type CrioDouble, type StartOptions, startCrioDouble } from './start-crio-double.ts';

/**
 * A double, a client on its socket, and a registry that stands in as mirror of `quay.example.com`,
 * which nobody else can reach.
 */
export interface SourceAndDouble {
  readonly double: CrioDouble;
  readonly client: TestCriClient;
  readonly source: SourceRegistry;
  /** Writes `[crio.image] pinned_images`, reloads and waits. */
  pin(...patterns: string[]): Promise<void>;
  stop(): Promise<void>;
}

/** `[[registry]]` with one mirror at `location`, which may have a path; plain HTTP. */
export function mirrorToml(prefix: string, location: string, more = ''): string {
  return `[[registry]]
prefix = "${prefix}"
location = "${prefix}"
${more}
[[registry.mirror]]
location = "${location}"
insecure = true
`;
}

/** Starts the three. The registry's repositories are those of `quay.example.com`, as `app/web`. */
export async function startSourceAndDouble(options: StartOptions = {}): Promise<SourceAndDouble> {
  const source = await startSourceRegistry();
  const files = {
    'etc/containers/registries.conf.d/50-mirror.conf': mirrorToml('quay.example.com', source.host),
    ...options.files,
  };
  const double = await startCrioDouble({ ...options, files }).catch(async (error: unknown) => {
    await source.close();
    throw error;
  });
  const client = connectCri(double.socketPath);
  return {
    double,
    client,
    source,
    pin: async (...patterns) => {
      const text = `[crio.image]\npinned_images = ${JSON.stringify(patterns)}\n`;
      writeFileSync(join(double.dirs.crioDropIns, '99-pins.conf'), text);
      const failure = await double.reloadAndWait();
      if (failure !== undefined) throw new Error(failure);
    },
    stop: async () => {
      client.close();
      await double.stop();
      await source.close();
    },
  };
}

import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { DoubleOptions } from '../options.ts';
import type { Skopeo } from './skopeo.ts';

/**
 * The registries configuration as it was at one moment. `home` is a directory that serves as
 * `$HOME` of skopeo.
 */
export interface RegistriesSnapshot {
  readonly home: string;
}

/**
 * Takes snapshots. CRI-O reads these files when it starts and when it reloads, never in between.
 */
export interface SnapshotTaker {
  /**
   * Copies the configuration and has the real library load the copy.
   *
   * @throws Error with the library's message, the paths being the original ones, when it refuses
   *   them.
   */
  take(): Promise<RegistriesSnapshot>;
}

interface Taken extends RegistriesSnapshot {
  readonly fingerprint: string;
}

/** Keeps the latest two snapshots: a pull that has just begun may not have read its own yet. */
export function createSnapshotTaker(deps: { options: DoubleOptions; skopeo: Skopeo }): SnapshotTaker {
  const { options, skopeo } = deps;
  const kept: Taken[] = [];
  let count = 0;
  return {
    take: async () => {
      const files = await readFiles(options);
      const fingerprint = createHash('sha256').update(JSON.stringify(files)).digest('hex');
      const latest = kept.at(-1);
      if (latest?.fingerprint === fingerprint) return latest;
      count += 1;
      const home = join(options.stateDirectory, `registries-${count}`);
      await write(home, files);
      // Without a word in it there is nothing to refuse, and skopeo starts slowly under emulation.
      const refusal = isEmpty(files) ? undefined : await skopeo.judgeRegistries(home);
      if (refusal !== undefined) {
        await rm(home, { recursive: true });
        throw new Error(withOriginalPaths(refusal, options));
      }
      const snapshot = { home, fingerprint };
      kept.push(snapshot);
      for (const old of kept.splice(0, kept.length - 2)) await rm(old.home, { recursive: true });
      return snapshot;
    },
  };
}

interface ConfigurationFiles {
  readonly main: string;
  readonly dropIns: readonly { readonly name: string; readonly text: string }[];
}

function isEmpty({ main, dropIns }: ConfigurationFiles): boolean {
  return main === '' && dropIns.length === 0;
}

/**
 * Files that are not there, dangling links among them, are passed over, as the library does
 * (docs/runtime-facts.md, fact 12).
 */
async function readFiles(options: DoubleOptions): Promise<ConfigurationFiles> {
  const main = (await readIfThere(options.registriesFile)) ?? '';
  const entries = await readdir(options.registriesDirectory, { withFileTypes: true }).catch(emptyIfMissing);
  const names = entries.filter((entry) => entry.name.endsWith('.conf') && !entry.isDirectory()).map(({ name }) => name);
  const dropIns = [];
  for (const name of names.sort()) {
    const text = await readIfThere(join(options.registriesDirectory, name));
    if (text !== undefined) dropIns.push({ name, text });
  }
  return { main, dropIns };
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new Error(`loading registries configuration ${JSON.stringify(path)}: ${(error as Error).message}`);
  }
}

function emptyIfMissing(error: NodeJS.ErrnoException): never[] {
  if (error.code === 'ENOENT') return [];
  throw error;
}

/**
 * A user's own `registries.conf` makes the library read that and its drop-in directory, and nothing
 * of the system.
 */
async function write(home: string, files: ConfigurationFiles): Promise<void> {
  const directory = join(home, '.config', 'containers');
  await mkdir(join(directory, 'registries.conf.d'), { recursive: true });
  await writeFile(join(directory, 'registries.conf'), files.main);
  for (const { name, text } of files.dropIns) {
    await writeFile(join(directory, 'registries.conf.d', basename(name)), text);
  }
}

function withOriginalPaths(message: string, options: DoubleOptions): string {
  return message
    .replace(
      /"[^"]*registries\.conf\.d\/([^"/]+)"/,
      (_, name: string) => `"${join(options.registriesDirectory, name)}"`,
    )
    .replace(/"[^"]*\.config\/containers\/registries\.conf"/, `"${options.registriesFile}"`);
}

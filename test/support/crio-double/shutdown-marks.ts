import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Log } from './log.ts';
import type { DoubleOptions } from './options.ts';

/**
 * The `wipe` command (docs/runtime-facts.md, fact 11): empties the storage, pinned images and all,
 * when the node was booted since the last start (the version file is gone) and the last shutdown
 * was not clean. Without a clean-shutdown file it does nothing.
 */
export function wipeIfUnclean(options: DoubleOptions, log: Log): void {
  const { cleanShutdownFile, versionFile, root } = options;
  if (cleanShutdownFile === undefined || existsSync(versionFile)) return;
  // The mark beside it says that a version that writes the file ran before, so that its absence
  // means something.
  if (existsSync(cleanShutdownFile) || !existsSync(`${cleanShutdownFile}.supported`)) return;
  log.info(
    `File ${cleanShutdownFile} not found. Wiping storage directory ${root} because of suspected unclean shutdown`,
  );
  if (!existsSync(root)) return;
  for (const name of readdirSync(root)) rmSync(join(root, name), { recursive: true, force: true });
}

/** At the start: writes the version file and takes the mark of the clean shutdown away. */
export function markStarted(options: DoubleOptions): void {
  const { cleanShutdownFile, versionFile, version } = options;
  mkdirSync(dirname(versionFile), { recursive: true });
  writeFileSync(versionFile, JSON.stringify(version));
  if (cleanShutdownFile === undefined) return;
  mkdirSync(dirname(cleanShutdownFile), { recursive: true });
  rmSync(cleanShutdownFile, { force: true });
  writeFileSync(`${cleanShutdownFile}.supported`, '');
}

/** At an orderly end: leaves the mark. */
export function markStopped({ cleanShutdownFile }: DoubleOptions): void {
  if (cleanShutdownFile !== undefined) writeFileSync(cleanShutdownFile, '');
}

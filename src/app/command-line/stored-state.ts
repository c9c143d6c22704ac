import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import type { StoredReport, StoredState } from '../../cli/context/command-adapters.ts';
import { loadSettings, NODE_SOURCES } from '../../config/load-settings.ts';
import { type BundleId, type Digest, hexOf } from '../../domain/model/digest.ts';
import { type StatusReport, statusReport } from '../../domain/report/status-schema.ts';
import { defaultSettings, type Settings } from '../../domain/settings/settings.ts';
import { bootTime } from '../../host/node-facts.ts';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { digestOf } from '../../platform/digest.ts';
import { reviveBundle } from '../daemon/signed-bundles.ts';

type Paths = Settings['paths'];

/** The daemon answers as many events. */
const SHOWN_EVENTS = 1_000;

/** What the daemon of this node left on the disk. `pathsOf`: default those of the settings. */
export function createStoredState(pathsOf: (signal: AbortSignal) => Promise<Paths> = nodePaths): StoredState {
  return {
    report: async (signal) => readReport(await pathsOf(signal), signal),
    records: async (signal) =>
      readDatabase((await pathsOf(signal)).state_dir, signal, async (copy) => {
        const { readRecords } = await import('../../store/database/read-copy.ts');
        return readRecords(copy, reviveBundle);
      }),
    attachment: async (digest, signal) => readBlob((await pathsOf(signal)).state_dir, digest, signal),
    history: async (bundleId, signal) =>
      readDatabase((await pathsOf(signal)).state_dir, signal, async (copy) => {
        const { readEvents } = await import('../../store/database/read-copy.ts');
        return readEvents(copy, bundleId as BundleId | undefined, SHOWN_EVENTS);
      }),
  };
}

/** Wrong settings count as the built-in ones, which the daemon probably uses too. */
async function nodePaths(signal: AbortSignal): Promise<Paths> {
  return loadSettings(NODE_SOURCES, signal).then(
    ({ paths }) => paths,
    () => defaultSettings.paths,
  );
}

/** The one of this boot, otherwise the one that outlasts a boot. */
async function readReport({ run_dir, state_dir }: Paths, signal: AbortSignal): Promise<StoredReport | undefined> {
  for (const folder of [run_dir, state_dir]) {
    const text = await readFile(join(folder, 'status.json'), { encoding: 'utf8', signal }).catch(() => undefined);
    const stored = text === undefined ? undefined : storedReport(text, bootTime().bootId);
    if (stored !== undefined) return stored;
  }
  return undefined;
}

/** Undefined for a file that is damaged. */
function storedReport(text: string, bootId: string): StoredReport | undefined {
  try {
    const { schemaVersion: _version, writtenAt, bootId: writtenIn, arch: _arch, ...report } = JSON.parse(text);
    if (typeof writtenAt !== 'string' || typeof writtenIn !== 'string' || !v.is(statusReport, report)) return undefined;
    return { report: report as StatusReport, writtenAt, bootId: writtenIn, isFromBefore: bootId !== writtenIn };
  } catch {
    return undefined;
  }
}

/** @throws AppError `cli/no-state` (`reject`) */
async function readBlob(folder: string, digest: Digest, signal: AbortSignal): Promise<Buffer> {
  const path = join(folder, 'blobs', 'sha256', hexOf(digest));
  const bytes = await readFile(path, { signal }).catch((cause: unknown) => {
    signal.throwIfAborted();
    const message = `the attachment ${path} can't be read: ${whyUnreadable(cause)}`;
    throw new AppError({ code: 'cli/no-state', message, disposition: 'reject', cause });
  });
  if (digestOf(bytes) === digest) return bytes;
  const message = `the attachment ${path} is damaged: plug in the medium of its bundle`;
  throw new AppError({ code: 'cli/no-state', message, disposition: 'reject' });
}

/** @throws AppError `cli/no-state` (`reject`) */
async function readDatabase<T>(folder: string, signal: AbortSignal, use: (copy: string) => Promise<T>): Promise<T> {
  const path = join(folder, 'state.db');
  let read = path;
  try {
    const { withDatabaseCopy } = await import('../../store/database/read-copy.ts');
    return await withDatabaseCopy(path, signal, (copy) => {
      read = copy;
      return use(copy);
    });
  } catch (error) {
    signal.throwIfAborted();
    // The copy is gone when somebody reads this.
    const message = `the database ${path} can't be read: ${whyUnreadable(error).replaceAll(read, path)}`;
    throw new AppError({ code: 'cli/no-state', message, disposition: 'reject', cause: error });
  }
}

function whyUnreadable(cause: unknown): string {
  const code = systemCodeOf(cause) ?? '';
  if (['EACCES', 'EPERM'].includes(code)) return 'only root may read it, so run this command with sudo';
  return code === 'ENOENT' ? 'it is missing' : reasonOf(cause);
}

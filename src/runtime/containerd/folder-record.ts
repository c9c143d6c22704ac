import { readIfPresent } from '../../platform/files/durable-file.ts';
import { writeDurably } from '../config/durable-file.ts';
import { configError } from '../cri/runtime-error.ts';

/**
 * The folders that stickpin has written mirrors to, in a file with one absolute path a line.
 * `systemd/clear-mirrors` reads it when the daemon does not run.
 */
export interface FolderRecord {
  /** In the order in which they were written. Empty when there is no file. */
  read(): Promise<readonly string[]>;
  /**
   * Returns when the record would survive a power cut. A record that is the same is not written.
   *
   * @throws AppError `runtime/config`, `runtime/write`, `runtime/no-space`
   */
  write(folders: readonly string[]): Promise<void>;
}

/** Folders that `systemd/clear-mirrors` looks into without a record. */
export const FOLDERS_CLEARED_ANYWAY: readonly string[] = [
  '/etc/containerd/certs.d',
  '/etc/containerd/certs.d:/etc/docker/certs.d',
  '/var/lib/rancher/k3s/agent/etc/containerd/certs.d',
  '/var/lib/rancher/rke2/agent/etc/containerd/certs.d',
  '/var/snap/microk8s/current/args/certs.d',
];

/** The {@link FolderRecord} in the file at `path`. A file that can't be read counts as empty. */
export function createFolderRecord(path: string): FolderRecord {
  /** What could not be written, while that does no harm. */
  let unwritten: readonly string[] | undefined;
  const read = async () => unwritten ?? linesOf((await readIfPresent(path).catch(() => undefined)) ?? '');
  return {
    read,
    write: async (folders) => {
      const unfit = folders.find((folder) => folder.includes('\n'));
      if (unfit !== undefined)
        throw configError(`The path ${JSON.stringify(unfit)} has a line break. Give that folder another name`);
      if (folders.length === 0 && (await read()).length === 0) return;
      try {
        await writeDurably({ path }, folders.map((folder) => `${folder}\n`).join(''));
        unwritten = undefined;
      } catch (error) {
        // A full disk of the state must not keep mirrors from usual folders.
        if (!folders.every((folder) => FOLDERS_CLEARED_ANYWAY.includes(folder))) throw error;
        unwritten = folders;
      }
    },
  };
}

function linesOf(text: string): readonly string[] {
  return text.split('\n').filter((line) => line.startsWith('/'));
}

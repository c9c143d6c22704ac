import { join } from 'node:path';
import { reasonOf } from '../platform/app-error.ts';
import type { Log } from '../platform/log.ts';
import { writeDurably } from '../runtime/durable-file.ts';

/** What other programs of the node read: a text by the paths of its files. */
export interface PublishedFiles {
  /** Takes the present texts. Never throws; what can't be written is logged once and tried again with the next text. */
  publish(texts: { readonly imagesEnv: string; readonly status: string }): void;
  /** Waits until what was published last is on disk. */
  settled(): Promise<void>;
}

/** `images.env` in the state and the run directory and `status.json` in the run directory, each replaced as a whole, and only when it changed. */
export function createPublishedFiles(stateDirectory: string, runDirectory: string, log: Log): PublishedFiles {
  const files = new Map<string, { wanted: string; written: string | undefined }>();
  let writing: Promise<void> | undefined;
  let lastTrouble = '';

  async function writeAll(): Promise<void> {
    for (;;) {
      const next = [...files].find(([, { wanted, written }]) => wanted !== written);
      if (next === undefined) return;
      const [path, file] = next;
      const text = file.wanted;
      try {
        await writeDurably({ path }, text);
        lastTrouble = '';
      } catch (error) {
        const trouble = reasonOf(error);
        if (trouble !== lastTrouble) log.warn({ err: error }, trouble);
        lastTrouble = trouble;
      }
      file.written = text;
    }
  }

  const want = (path: string, wanted: string) => {
    const file = files.get(path);
    if (file === undefined) files.set(path, { wanted, written: undefined });
    else file.wanted = wanted;
  };
  return {
    publish: ({ imagesEnv, status }) => {
      want(join(stateDirectory, 'images.env'), imagesEnv);
      want(join(runDirectory, 'images.env'), imagesEnv);
      want(join(runDirectory, 'status.json'), status);
      writing ??= writeAll().finally(() => {
        writing = undefined;
      });
    },
    settled: async () => writing,
  };
}

/** The thread for large documents. It is a separate file, since it needs the schemas. */
import { parentPort } from 'node:worker_threads';
import { AppError } from '../../platform/app-error.ts';
import type { BundleErrorCode } from '../bundle-error.ts';
import { type DocumentTask, type FromWorker, parseDocument, type ToWorker } from './document-task.ts';

/** Elements sent at once: receiving them blocks the main thread for some milliseconds. */
const ITEMS_AT_ONCE = 256;

let parts: Iterator<FromWorker, undefined> = partsOf({});

function* partsOf(parsed: object): Generator<FromWorker, undefined> {
  const lists = Object.entries(parsed).filter((entry): entry is [string, unknown[]] => Array.isArray(entry[1]));
  yield { kind: 'head', head: { ...parsed, ...Object.fromEntries(lists.map(([member]) => [member, []])) } };
  for (const [member, list] of lists) {
    for (let at = 0; at < list.length; at += ITEMS_AT_ONCE) {
      yield { kind: 'items', member, items: list.slice(at, at + ITEMS_AT_ONCE) };
    }
  }
}

function begin(task: DocumentTask): FromWorker {
  try {
    parts = partsOf(parseDocument(task));
    return next();
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const { code, message, disposition } = error;
    return { kind: 'failed', code: code as BundleErrorCode, message, disposition };
  }
}

function next(): FromWorker {
  return parts.next().value ?? { kind: 'done' };
}

parentPort?.on('message', (message: ToWorker) => {
  parentPort?.postMessage(message.kind === 'parse' ? begin(message.task) : next());
});

import type { Contents, Payload } from '../../domain/model/bundle.ts';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { untilAborted, withDeadline } from '../../platform/async/abort.ts';
import { OUT_OF_MEMORY, startWorkerThread, type WorkerThread } from '../../platform/async/worker-thread.ts';
import { formatBytes } from '../../platform/sizes.ts';
import { bundleError } from '../bundle-error.ts';
import type { ImageConfig, ImageIndex, ImageManifest } from '../format/oci-schema.ts';
import {
  type DocumentName,
  type DocumentTask,
  type FromWorker,
  nameOf,
  type ParsedDocument,
  parseDocument,
  type ToWorker,
} from './document-task.ts';

export interface WorkerDocumentsOptions {
  /** The built `document-worker.ts`. */
  readonly program: URL;
  /** Up to this size the calling thread parses. Default 64 KiB, which takes a few milliseconds. */
  readonly inlineBytes?: number;
  /** Heap limit in MiB. Default 256, more than twice the need of the largest document. */
  readonly heapMb?: number;
  /** Limits one document. Default two minutes: the largest take seconds, and a node may be busy. */
  readonly deadlineMs?: number;
  /** The thread ends when it is idle for this long. Default 5 s. */
  readonly idleMs?: number;
}

export interface WorkerDocuments extends Documents {
  /** Waiting calls are rejected. */
  close(): void;
}

interface Seat {
  readonly options: Required<WorkerDocumentsOptions>;
  thread: WorkerThread<ToWorker> | undefined;
  current: { readonly take: (message: FromWorker) => void; readonly fail: (reason: unknown) => void } | undefined;
  idle: NodeJS.Timeout | undefined;
}

/**
 * Parses large documents in one thread, in order. The thread starts with the first document and
 * ends after an idle time, an abort, the deadline or a full heap.
 */
export function createWorkerDocuments(options: WorkerDocumentsOptions): WorkerDocuments {
  const defaults = { inlineBytes: 64 * 1024, heapMb: 256, deadlineMs: 2 * 60_000, idleMs: 5_000 };
  const seat: Seat = { options: { ...defaults, ...options }, thread: undefined, current: undefined, idle: undefined };
  let previous: Promise<unknown> = Promise.resolve();
  const inTurn = (task: DocumentTask, signal: AbortSignal): Promise<ParsedDocument> => {
    const parsed = previous.then(() => parseInThread(seat, task, signal));
    previous = parsed.catch(() => undefined);
    return untilAborted(parsed, signal);
  };
  return {
    ...documentsBy(async (task, signal) => {
      signal.throwIfAborted();
      return task.bytes.length <= seat.options.inlineBytes ? parseDocument(task) : inTurn(task, signal);
    }),
    close: () => {
      clearTimeout(seat.idle);
      seat.thread?.end(new Error('documents are not read any more'));
    },
  };
}

/**
 * @throws AppError as {@link parseDocument}, and without memory or time; `bundle/worker` (`retry`)
 */
async function parseInThread(seat: Seat, task: DocumentTask, signal: AbortSignal): Promise<ParsedDocument> {
  const { what } = nameOf(task);
  const { options } = seat;
  // A transferred buffer is empty.
  const size = formatBytes(task.bytes.length);
  clearTimeout(seat.idle);
  try {
    return await withDeadline(what, options.deadlineMs, signal, (inner) => converse(seat, task, inner));
  } catch (error) {
    signal.throwIfAborted();
    throw explained(error, task, size, options);
  } finally {
    seat.idle = setTimeout(() => seat.thread?.end(new Error('idle')), options.idleMs).unref();
  }
}

/** An abort ends the thread, since a running parse can't be stopped. */
function converse(seat: Seat, task: DocumentTask, signal: AbortSignal): Promise<ParsedDocument> {
  seat.thread ??= startThread(seat);
  const { thread } = seat;
  const onAbort = (): void => thread.end(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  const parsed = new Promise<ParsedDocument>((resolve, reject) => {
    let document: Record<string, unknown> = {};
    const take = (message: FromWorker): void => {
      if (message.kind === 'done') resolve(document as unknown as ParsedDocument);
      else if (message.kind === 'failed') {
        reject(bundleError(message.code, message.message, { disposition: message.disposition }));
      } else {
        if (message.kind === 'head') document = message.head;
        else (document[message.member] as unknown[]).push(...message.items);
        thread.post({ kind: 'next' });
      }
    };
    seat.current = { take, fail: reject };
    const bytes = ownBytes(task.bytes);
    thread.post({ kind: 'parse', task: { ...task, bytes } }, [bytes.buffer]);
  });
  return parsed.finally(() => {
    seat.current = undefined;
    signal.removeEventListener('abort', onAbort);
  });
}

function startThread(seat: Seat): WorkerThread<ToWorker> {
  const { program, heapMb } = seat.options;
  return startWorkerThread<ToWorker, FromWorker>({
    program,
    heap: { maxOldGenerationSizeMb: heapMb, maxYoungGenerationSizeMb: 16 },
    onMessage: (message) => seat.current?.take(message),
    onEnd: (reason) => {
      seat.thread = undefined;
      seat.current?.fail(reason);
    },
  });
}

/** Only a separate buffer can be transferred. `slice()` of a Buffer would share memory. */
function ownBytes(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const { buffer, byteLength } = bytes;
  return buffer instanceof ArrayBuffer && buffer.byteLength === byteLength
    ? new Uint8Array(buffer)
    : new Uint8Array(bytes);
}

function explained(
  error: unknown,
  task: DocumentTask,
  size: string,
  options: Required<WorkerDocumentsOptions>,
): unknown {
  const { what, code } = nameOf(task);
  const { heapMb, deadlineMs } = options;
  const advice = 'make the bundle again, or spread its images over several bundles';
  if (systemCodeOf(error) === OUT_OF_MEMORY) {
    const message = `${what} (${size}) is too large to be read: it takes more than ${heapMb} MiB of memory; ${advice}`;
    return bundleError(code, message, { cause: error });
  }
  if (error instanceof AppError && error.code === 'platform/deadline') {
    const message = `${what} (${size}) could not be read within ${deadlineMs / 1000} s; ${advice}`;
    return bundleError(code, message, { cause: error });
  }
  if (error instanceof AppError) return error;
  const message = `${what} could not be read: ${reasonOf(error)}; plug the medium in again, and report this if it happens again`;
  return bundleError('bundle/worker', message, { cause: error });
}

/**
 * Parses documents whose digests were checked before, and owns their bytes from the call on.
 *
 * @throws AppError that names the document and the fault; the signal's reason after an abort
 */
export interface Documents {
  contents(bytes: Buffer, payload: Payload, signal: AbortSignal): Promise<Contents>;
  layoutIndex(bytes: Buffer, name: DocumentName, signal: AbortSignal): Promise<ImageIndex>;
  index(bytes: Buffer, name: DocumentName, signal: AbortSignal): Promise<ImageIndex>;
  manifest(bytes: Buffer, name: DocumentName, signal: AbortSignal): Promise<ImageManifest>;
  config(bytes: Buffer, name: DocumentName, signal: AbortSignal): Promise<ImageConfig>;
}

function documentsBy(parse: (task: DocumentTask, signal: AbortSignal) => Promise<ParsedDocument>): Documents {
  return {
    contents: async (bytes, payload, signal) => (await parse({ kind: 'contents', bytes, payload }, signal)) as Contents,
    layoutIndex: async (bytes, name, signal) =>
      (await parse({ kind: 'layout-index', bytes, name }, signal)) as ImageIndex,
    index: async (bytes, name, signal) => (await parse({ kind: 'index', bytes, name }, signal)) as ImageIndex,
    manifest: async (bytes, name, signal) => (await parse({ kind: 'manifest', bytes, name }, signal)) as ImageManifest,
    config: async (bytes, name, signal) => (await parse({ kind: 'config', bytes, name }, signal)) as ImageConfig,
  };
}

/** Blocks the calling thread: for the command line. */
export const documentsHere: Documents = documentsBy(async (task, signal) => {
  signal.throwIfAborted();
  return parseDocument(task);
});

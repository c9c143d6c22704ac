import { AppError, type Disposition, reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import { diskFaultMessage, diskFaultOf } from '../../platform/files/disk-fault.ts';
import { oneLine } from '../../platform/plain-text.ts';
import type { PullErrorCode } from '../../ports/runtime.ts';

/** `runtime/config` (`wait`) says what to change; `runtime/write` (`wait`) is about our files. */
type RuntimeErrorCode = PullErrorCode | 'runtime/config' | 'runtime/write';

/** The code determines disposition and advice. */
export function pullError(code: PullErrorCode, what: string, cause?: unknown): AppError<RuntimeErrorCode> {
  return new AppError({ code, message: `${what}. ${PULL_ADVICE[code]}`, disposition: PULL_DISPOSITIONS[code], cause });
}

/** `message` names the file and what to change. */
export function configError(message: string, cause?: unknown): AppError<RuntimeErrorCode> {
  return new AppError({ code: 'runtime/config', message, disposition: 'wait', cause });
}

/** A full disk is `runtime/no-space`. */
export function writeError(path: string, cause: unknown): AppError<RuntimeErrorCode> {
  const fault = diskFaultOf(cause);
  if (fault === 'full' || fault === 'quota') {
    return new AppError({
      code: 'runtime/no-space',
      message: diskFaultMessage(path, fault),
      disposition: 'wait',
      cause,
    });
  }
  const reason = reasonOf(cause);
  // Paths that the sandbox of the service protects appear as read-only too.
  const what = fault === undefined ? `${path} could not be written: ${reason}` : diskFaultMessage(path, fault);
  return new AppError({
    code: 'runtime/write',
    message: `${what}. See whether the service may write there (ReadWritePaths=); a folder made after its start needs 'systemctl restart stickpin'`,
    disposition: 'wait',
    cause,
  });
}

/** An AppError stays; an abort becomes `runtime/cancelled`; a gRPC status is classified. */
export function toRuntimeError(thrown: unknown, what: string, signal: AbortSignal): AppError {
  if (signal.aborted) return pullError('runtime/cancelled', `${what} was cancelled`, thrown);
  if (thrown instanceof AppError) return thrown;
  const status = grpcStatusOf(thrown);
  if (status === undefined) return pullError('runtime/pull-failed', `${what} failed: ${reasonOf(thrown)}`, thrown);
  return pullError(classifyPullError(status), `${what} failed: ${status.text}`, thrown);
}

export function grpcCodeOf(thrown: unknown): number | undefined {
  return thrown instanceof Error && 'code' in thrown && typeof thrown.code === 'number' ? thrown.code : undefined;
}

function grpcStatusOf(thrown: unknown): ForeignStatus | undefined {
  const grpcCode = grpcCodeOf(thrown);
  if (!(thrown instanceof Error) || grpcCode === undefined) return undefined;
  const details = 'details' in thrown && typeof thrown.details === 'string' ? thrown.details : thrown.message;
  return { grpcCode, text: oneLine(details) };
}

export function isUnreachable(thrown: unknown): boolean {
  return thrown instanceof AppError && thrown.code === 'runtime/unreachable';
}

export type Call<T> = (signal: AbortSignal) => Promise<T>;

const PAUSES_MS = [100, 200, 400];

/** Up to four times, but an unreachable runtime once. @throws the last error; an abort */
export async function callAgain<T>(call: Call<T>, clock: Clock, signal: AbortSignal): Promise<T> {
  for (const pauseMs of PAUSES_MS) {
    try {
      return await call(signal);
    } catch (error) {
      signal.throwIfAborted();
      if (isUnreachable(error)) throw error;
      await clock.sleep(pauseMs, signal);
    }
  }
  return call(signal);
}

interface ForeignStatus {
  readonly grpcCode: number;
  readonly text: string;
}

const GRPC_CANCELLED = 1;
export const GRPC_INVALID_ARGUMENT = 3;
const GRPC_DEADLINE_EXCEEDED = 4;
export const GRPC_NOT_FOUND = 5;
export const GRPC_ALREADY_EXISTS = 6;
const GRPC_UNIMPLEMENTED = 12;
const GRPC_UNAVAILABLE = 14;

/**
 * Texts of both runtimes' libraries, the most specific first. A full disk often also causes a
 * digest or transfer error. Our mirror's 404 with an unreachable upstream means that something is
 * missing. CRI-O passes on texts of containers/image with code Unknown; containerd maps some errors
 * to codes (docs/runtime-facts.md, facts 16, 24). Docker has other texts, with code Unknown.
 */
const PATTERNS: readonly (readonly [PullErrorCode, RegExp])[] = [
  ['runtime/no-space', /no space left on device|disk quota exceeded|not enough (free )?(disk )?space/i],
  ['runtime/read-only', /read-only file ?system/i],
  [
    'runtime/digest-mismatch',
    /digest did not match|unexpected commit (digest|size)|failed size validation|does not match (provided |the )?(manifest )?digest|digest mismatch|digest verification failed|verification failed for digest/i,
  ],
  [
    'runtime/policy',
    /source image rejected|rejected by policy|signature was required|SignatureValidationFailed|no signature exists|(cryptographic|invalid) signature/i,
  ],
  [
    'runtime/not-found',
    /(manifest|name|blob|repository name) (is )?(unknown|not known)|repository does not exist|unexpected status( code)?\b.*\b404\b|status(code)?:? 404|HTTP status: 404|unknown blob|(failed to resolve reference .*|from remote): not found$/i,
  ],
  // docs/runtime-facts.md, fact 57: of containers/image, of containerd, of Docker.
  [
    'runtime/unfit-image',
    /unsupported docker v2s2 media type|invalid mixed OCI image|image-specific operation on artifact|received a manifest list instead of|no image found in (?:image index|manifest list)/i,
  ],
  [
    'runtime/unfit-image',
    /mismatched image rootfs and manifest layers|number of layers and diffIDs don't match|no processor for media-type|no match for platform in manifest/i,
  ],
  [
    'runtime/unfit-image',
    // A media type follows: a proxy sends the same text with status 415.
    /(?<!415 )unsupported media type:? "?[\w.+-]+\/\w|unsupported manifest format|no matching manifest for|max depth exceeded/i,
  ],
  ['runtime/cancelled', /context canceled|because of no progress|pull progress timeout/i],
];

/**
 * The only function that reads messages of other programs. `runtime/cancelled` is a cancellation by
 * the runtime (docs/runtime-facts.md, fact 20), not by stickpin.
 */
export function classifyPullError({ grpcCode, text }: ForeignStatus): PullErrorCode {
  const match = PATTERNS.find(([, pattern]) => pattern.test(text));
  if (match !== undefined) return match[0];
  if (grpcCode === GRPC_CANCELLED) return 'runtime/cancelled';
  if (grpcCode === GRPC_NOT_FOUND) return 'runtime/not-found';
  // This is the deadline of our call. A deadline of the runtime during a pull has another text.
  if (grpcCode === GRPC_DEADLINE_EXCEEDED && text.startsWith('Deadline exceeded')) return 'runtime/unreachable';
  if (grpcCode === GRPC_UNAVAILABLE || grpcCode === GRPC_UNIMPLEMENTED) return 'runtime/unreachable';
  return 'runtime/pull-failed';
}

/** A damaged or missing blob waits for a medium that has it. */
const PULL_DISPOSITIONS: Readonly<Record<PullErrorCode, Disposition>> = {
  'runtime/unreachable': 'retry',
  'runtime/stopping': 'retry',
  'runtime/no-space': 'wait',
  'runtime/read-only': 'wait',
  'runtime/digest-mismatch': 'wait',
  'runtime/not-found': 'wait',
  'runtime/policy': 'wait',
  'runtime/unfit-image': 'wait',
  'runtime/cancelled': 'retry',
  'runtime/pull-failed': 'retry',
};

const PULL_ADVICE: Readonly<Record<PullErrorCode, string>> = {
  'runtime/stopping': 'It continues when the runtime runs again',
  'runtime/unreachable': 'See whether the runtime runs; the pull is tried again',
  'runtime/no-space': "Free space on the runtime's storage",
  'runtime/read-only': "Look for errors of the disk with the runtime's storage in dmesg, and remount it writable",
  'runtime/digest-mismatch': 'A blob on the medium is damaged: copy the bundle again or use another medium',
  'runtime/not-found': 'Plug in the medium that has it',
  'runtime/unfit-image': 'This runtime can not use an image of that form',
  'runtime/policy': 'The signature policy of this node (policy.json) does not admit it',
  'runtime/cancelled': 'It is tried again when due',
  'runtime/pull-failed': 'It is tried again',
};

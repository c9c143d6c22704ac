import type { Disposition } from '../../platform/app-error.ts';
import type { PullErrorCode } from '../../ports/runtime.ts';

/** A gRPC status of a runtime: the numeric code of grpc/status.md and the runtime's text. */
export interface ForeignStatus {
  readonly grpcCode: number;
  readonly text: string;
}

const GRPC_CANCELLED = 1;
const GRPC_DEADLINE_EXCEEDED = 4;
const GRPC_NOT_FOUND = 5;
const GRPC_UNIMPLEMENTED = 12;
const GRPC_UNAVAILABLE = 14;

/**
 * Error texts of both runtimes' libraries, the most specific first. A full disk often also causes a
 * digest or transfer error. A text with our mirror's 404 and an unreachable upstream means that
 * something is missing. CRI-O passes on the texts of containers/image with code Unknown; containerd
 * maps some errors to codes (docs/runtime-facts.md, facts 16, 24).
 */
const PATTERNS: readonly (readonly [PullErrorCode, RegExp])[] = [
  ['runtime/no-space', /no space left on device|disk quota exceeded|not enough (free )?(disk )?space/i],
  ['runtime/read-only', /read-only file ?system/i],
  [
    'runtime/digest-mismatch',
    /digest did not match|unexpected commit (digest|size)|failed size validation|does not match (provided |the )?(manifest )?digest|digest mismatch|digest verification failed/i,
  ],
  [
    'runtime/policy',
    /source image rejected|rejected by policy|signature was required|SignatureValidationFailed|no signature exists|(cryptographic|invalid) signature/i,
  ],
  [
    'runtime/not-found',
    /(manifest|name|blob|repository name) (is )?(unknown|not known)|repository does not exist|unexpected status( code)?\b.*\b404\b|status(code)?:? 404|HTTP status: 404|failed to resolve reference .*: not found$/i,
  ],
  ['runtime/cancelled', /context canceled|because of no progress|pull progress timeout/i],
];

/**
 * Why a pull failed, from its status. Pure; the only function that reads messages of other
 * programs. `runtime/cancelled` is a cancellation by the runtime (docs/runtime-facts.md, fact 20).
 * A cancellation by stickpin is known to the caller and not passed here.
 */
export function classifyPullError({ grpcCode, text }: ForeignStatus): PullErrorCode {
  const match = PATTERNS.find(([, pattern]) => pattern.test(text));
  if (match !== undefined) return match[0];
  if (grpcCode === GRPC_CANCELLED) return 'runtime/cancelled';
  if (grpcCode === GRPC_NOT_FOUND) return 'runtime/not-found';
  // Our own deadline. A deadline that the runtime reached during a pull has another text.
  if (grpcCode === GRPC_DEADLINE_EXCEEDED && text.startsWith('Deadline exceeded')) return 'runtime/unreachable';
  if (grpcCode === GRPC_UNAVAILABLE || grpcCode === GRPC_UNIMPLEMENTED) return 'runtime/unreachable';
  return 'runtime/pull-failed';
}

/** The disposition of each pull error. A damaged or missing blob waits for a medium that has it. */
export const PULL_DISPOSITIONS: Readonly<Record<PullErrorCode, Disposition>> = {
  'runtime/unreachable': 'retry',
  'runtime/stopping': 'retry',
  'runtime/no-space': 'wait',
  'runtime/read-only': 'wait',
  'runtime/digest-mismatch': 'wait',
  'runtime/not-found': 'wait',
  'runtime/policy': 'wait',
  'runtime/cancelled': 'retry',
  'runtime/pull-failed': 'retry',
};

/** What to do next, for the end of a message. */
export const PULL_ADVICE: Readonly<Record<PullErrorCode, string>> = {
  'runtime/stopping': 'It continues when the runtime runs again',
  'runtime/unreachable': 'See whether the runtime runs; the pull is tried again',
  'runtime/no-space': "Free space on the runtime's storage",
  'runtime/read-only': "Look for errors of the disk with the runtime's storage in dmesg, and remount it writable",
  'runtime/digest-mismatch': 'A blob on the medium is damaged: copy the bundle again or use another medium',
  'runtime/not-found': 'Plug in the medium that has it',
  'runtime/policy': 'The signature policy of this node (policy.json) does not admit it',
  'runtime/cancelled': 'It is tried again when due',
  'runtime/pull-failed': 'It is tried again',
};

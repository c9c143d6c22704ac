import type { Disposition } from '../../platform/app-error.ts';
import type { PullErrorCode } from '../../ports/runtime.ts';

/**
 * A gRPC status as a runtime sent it: the numeric code of grpc/status.md and the runtime's own
 * text.
 */
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
 * What both runtimes' libraries write, most telling first: a full disk often ends in a digest or
 * transfer error as well, and a text that names both our mirror's 404 and an upstream that can't be
 * reached is about what is missing. CRI-O hands the texts of containers/image through under code
 * Unknown; containerd maps a part of its errors to codes (docs/runtime-facts.md, facts 16, 24).
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
 * Why a pull failed, told from the status alone. Pure; the only place that looks at foreign message
 * texts. `runtime/cancelled` is a cancellation by the runtime itself (docs/runtime-facts.md, fact
 * 20); one by ourselves is known to the caller and never gets here.
 */
export function classifyPullError({ grpcCode, text }: ForeignStatus): PullErrorCode {
  const match = PATTERNS.find(([, pattern]) => pattern.test(text));
  if (match !== undefined) return match[0];
  if (grpcCode === GRPC_CANCELLED) return 'runtime/cancelled';
  if (grpcCode === GRPC_NOT_FOUND) return 'runtime/not-found';
  // Our own deadline; one that the runtime met while pulling reads otherwise.
  if (grpcCode === GRPC_DEADLINE_EXCEEDED && text.startsWith('Deadline exceeded')) return 'runtime/unreachable';
  if (grpcCode === GRPC_UNAVAILABLE || grpcCode === GRPC_UNIMPLEMENTED) return 'runtime/unreachable';
  return 'runtime/pull-failed';
}

/**
 * What may be done about each pull error. A damaged or missing blob waits for a medium that has it.
 */
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
  'runtime/stopping': 'It goes on when the runtime runs again',
  'runtime/unreachable': 'See whether the runtime runs; the pull is tried again',
  'runtime/no-space': "Free space on the runtime's storage",
  'runtime/read-only': "Look for errors of the disk with the runtime's storage in dmesg, and remount it writable",
  'runtime/digest-mismatch': 'A blob on the medium is damaged: copy the bundle again or use another medium',
  'runtime/not-found': 'Plug in the medium that has it',
  'runtime/policy': 'The signature policy of this node (policy.json) does not admit it',
  'runtime/cancelled': 'It is tried again when due',
  'runtime/pull-failed': 'It is tried again',
};

import { AppError, type Disposition } from '../../platform/app-error.ts';

/**
 * - `kubernetes/kubeconfig` (`wait`): no kubeconfig, or one that can't be used.
 * - `kubernetes/unreachable` (`retry`): no connection, no answer in time, or a broken answer.
 * - `kubernetes/unauthorized` (`retry`): 401; the kubelet's certificate was not accepted.
 * - `kubernetes/forbidden` (`wait`): 403; a rule of the cluster refuses it.
 * - `kubernetes/not-found` (`wait`): 404.
 * - `kubernetes/conflict` (`retry`): 409.
 * - `kubernetes/gone` (`retry`): 410, or a watch of changes that are forgotten.
 * - `kubernetes/no-bookmarks` (`retry`): the storage of this watch has no bookmarks.
 * - `kubernetes/busy` (`retry`): 429 or 503, maybe with `retryAfterMs`.
 * - `kubernetes/refused` (`reject`): any other refusal, such as 422.
 * - `kubernetes/answer` (`retry`): no Kubernetes API answered, but a proxy for example.
 */
export type KubernetesErrorCode =
  | 'kubernetes/kubeconfig'
  | 'kubernetes/unreachable'
  | 'kubernetes/unauthorized'
  | 'kubernetes/forbidden'
  | 'kubernetes/not-found'
  | 'kubernetes/conflict'
  | 'kubernetes/gone'
  | 'kubernetes/no-bookmarks'
  | 'kubernetes/busy'
  | 'kubernetes/refused'
  | 'kubernetes/answer';

const DISPOSITIONS: Readonly<Record<KubernetesErrorCode, Disposition>> = {
  'kubernetes/kubeconfig': 'wait',
  'kubernetes/unreachable': 'retry',
  'kubernetes/unauthorized': 'retry',
  'kubernetes/forbidden': 'wait',
  'kubernetes/not-found': 'wait',
  'kubernetes/conflict': 'retry',
  'kubernetes/gone': 'retry',
  'kubernetes/no-bookmarks': 'retry',
  'kubernetes/busy': 'retry',
  'kubernetes/refused': 'reject',
  'kubernetes/answer': 'retry',
};

export type KubernetesError = AppError<KubernetesErrorCode> & {
  /** `Retry-After` in milliseconds. */
  readonly retryAfterMs?: number;
};

export function kubernetesError(
  code: KubernetesErrorCode,
  message: string,
  more: { readonly cause?: unknown; readonly retryAfterMs?: number } = {},
): KubernetesError {
  const { retryAfterMs, ...cause } = more;
  const error = new AppError({ code, message, disposition: DISPOSITIONS[code], ...cause });
  return retryAfterMs === undefined ? error : Object.assign(error, { retryAfterMs });
}

/** Without `codes`: any of them. */
export function isKubernetesError(
  thrown: unknown,
  ...codes: readonly KubernetesErrorCode[]
): thrown is KubernetesError {
  if (!(thrown instanceof AppError) || !(thrown.code in DISPOSITIONS)) return false;
  return codes.length === 0 || codes.some((code) => code === thrown.code);
}

import type { Fault } from '../model/reason.ts';

/**
 * Whether the runtime's storage, or our own files, can't be written since a filesystem is full or
 * read-only.
 */
export function isAnyDiskTrouble(reason: Pick<Fault, 'code'>): boolean {
  return isDiskTrouble(reason) || isStorageTrouble(reason);
}

/** Whether the runtime found its storage full or read-only. */
export function isStorageTrouble({ code }: Pick<Fault, 'code'>): boolean {
  return code === 'runtime/no-space' || code === 'runtime/read-only';
}

/**
 * Whether stickpin's own files can't be written since their filesystem is full or read-only: a
 * person has to act, and all continues automatically then.
 */
export function isDiskTrouble({ code }: Pick<Fault, 'code'>): boolean {
  return code === 'store/no-space' || code === 'store/read-only';
}

/**
 * Whether nothing can be recorded: {@link isDiskTrouble}, or the state database is damaged, which
 * lasts until a restart.
 */
export function isRecordingTrouble(reason: Pick<Fault, 'code'>): boolean {
  return isDiskTrouble(reason) || isStateDamage(reason);
}

/** Whether the state database was found damaged while stickpin runs. */
export function isStateDamage({ code }: Pick<Fault, 'code'>): boolean {
  return code === 'store/damaged';
}

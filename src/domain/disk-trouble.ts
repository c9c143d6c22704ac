import type { Reason } from './medium.ts';

/** Whether stickpin's own files can't be written since their filesystem is full or read-only: a person has to act, and all goes on by itself then. */
export function isDiskTrouble({ code }: Reason): boolean {
  return code === 'store/no-space' || code === 'store/read-only';
}

import type { Event } from '../../model/condition.ts';

/** Arguments of a command are up to 8 KiB; a line of the history shows their beginning. */
const SHOWN_CHARACTERS = 200;

/**
 * Who asked for a command that was carried out: `root asked for: activate ocp@4.13.7`.
 *
 * @param args by their names; those that are empty or false are left out
 * @param uid user id of the caller
 */
export function askedEvent(command: string, args: object, uid: number): Event {
  const who = uid === 0 ? 'root' : `User ${uid}`;
  const words = Object.entries(args).flatMap(([name, value]: [string, unknown]) => wordsOf(name, value));
  const message = `${who} asked for: ${[command, ...words].join(' ')}`;
  return {
    kind: 'commandAsked',
    level: 'info',
    message: message.slice(0, SHOWN_CHARACTERS),
    by: callerText(command, uid),
  };
}

/** The caller of a command, as `EventRow.by` has it: `uid 1000: activate`. */
export function callerText(command: string, uid: number | undefined): string {
  return `${uid === undefined ? 'unknown user' : `uid ${uid}`}: ${command}`;
}

function wordsOf(name: string, value: unknown): readonly string[] {
  if (value === true) return [name];
  return value === false || value === '' ? [] : [String(value)];
}

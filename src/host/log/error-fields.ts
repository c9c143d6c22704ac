import { AppError, reasonOf } from '../../platform/app-error.ts';

/**
 * What of a thrown value goes into a log line: its text with those of its causes, its code, and the
 * stack of anything that is no {@link AppError}, since only that is a bug.
 */
export function errorFields(thrown: unknown): Readonly<Record<string, string>> {
  const fields: Record<string, string> = { error: textWithCauses(thrown) };
  if (thrown instanceof AppError) {
    fields.errorCode = thrown.code;
    fields.errorDisposition = thrown.disposition;
  } else if (thrown instanceof Error && thrown.stack !== undefined) {
    fields.errorStack = thrown.stack;
  }
  return fields;
}

/** Causes repeat the text of what wraps them more often than not. */
function textWithCauses(thrown: unknown): string {
  const texts: string[] = [];
  for (
    let next = thrown;
    next !== undefined && texts.length < 8;
    next = next instanceof Error ? next.cause : undefined
  ) {
    const text = reasonOf(next);
    if (!texts.some((earlier) => earlier.includes(text))) texts.push(text);
  }
  return texts.join(': ');
}

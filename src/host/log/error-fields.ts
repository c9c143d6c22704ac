import { AppError, reasonOf } from '../../platform/app-error.ts';

/**
 * The log fields of a thrown value: its text with the texts of its causes, and its code. The stack
 * only if it is not an {@link AppError}, because that is a bug.
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

/** Skips a cause whose text is already part of an outer one. */
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

import { namesSecret, redacted } from './redact.ts';
import { REMOVED } from './tokens.ts';

/**
 * As {@link redacted}, for a file of a report: a JSON document stays one, so each of its strings is
 * looked at alone, together with its name. Other text is taken as it is.
 */
export function redactedFile(text: string, secrets: readonly string[] = []): string {
  const document = parsed(text);
  if (document === undefined) return redacted(text, secrets);
  return `${JSON.stringify(withoutSecrets(document, secrets))}\n`;
}

function parsed(text: string): object | undefined {
  if (!/^\s*[{[]/.test(text)) return undefined;
  try {
    return JSON.parse(text) as object;
  } catch {
    return undefined;
  }
}

function withoutSecrets(value: unknown, secrets: readonly string[]): unknown {
  if (typeof value === 'string') return redacted(value, secrets);
  if (Array.isArray(value)) {
    return value.map((one: unknown, index) => {
      const option: unknown = value[index - 1];
      const isArgument = typeof one === 'string' && typeof option === 'string' && isSecretOption(option);
      return isArgument ? REMOVED : withoutSecrets(one, secrets);
    });
  }
  if (typeof value !== 'object' || value === null) return value;
  const { name, key } = value as { name?: unknown; key?: unknown };
  const variable = [name, key].some((one) => typeof one === 'string' && namesSecret(one));
  return Object.fromEntries(
    Object.entries(value).map(([member, one]) => [
      member,
      isSecretScalar(one) && (namesSecret(member) || (variable && member === 'value'))
        ? REMOVED
        : withoutSecrets(one, secrets),
    ]),
  );
}

function isSecretOption(option: string): boolean {
  return option.startsWith('-') && namesSecret(option);
}

function isSecretScalar(value: unknown): boolean {
  return typeof value === 'string' || typeof value === 'number';
}

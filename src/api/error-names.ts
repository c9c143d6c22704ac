import { SERVICE } from './contract.ts';

/**
 * Prefix of our error names. After it comes the code of the AppError: `Engine.NoSuchBundle` for
 * `engine/no-such-bundle`.
 */
const ERROR_PREFIX = `${SERVICE}.Error.`;

/** The D-Bus error name of an AppError's code. */
export function errorNameOf(code: string): string {
  const words = (part: string): string =>
    part
      .split(/[^A-Za-z0-9]+/)
      .filter((word) => word !== '')
      .map((word) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`)
      .join('');
  const elements = code
    .split('/')
    .map(words)
    .filter((element) => /^[A-Z]/.test(element));
  return `${ERROR_PREFIX}${elements.length === 0 ? 'Failed' : elements.join('.')}`;
}

/**
 * The code of the AppError behind a D-Bus error name of ours: the inverse of {@link errorNameOf}.
 * Undefined for other errors.
 */
export function codeOfErrorName(errorName: string): string | undefined {
  if (!errorName.startsWith(ERROR_PREFIX)) return undefined;
  return errorName
    .slice(ERROR_PREFIX.length)
    .split('.')
    .map((element) => element.replace(/([a-z0-9])([A-Z])/g, '$1-$2').toLowerCase())
    .join('/');
}

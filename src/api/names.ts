/** Where the daemon answers on the system bus. */
export const SERVICE = 'io.stickpin1';

/** Its one object. */
export const OBJECT_PATH = '/io/stickpin1';

/** Its one interface. */
export const INTERFACE = 'io.stickpin1.Manager';

/** Prefix of the names of its errors: `io.stickpin1.Error.` and the code of the AppError, `engine/no-such-bundle` as `Engine.NoSuchBundle`. */
const ERROR_PREFIX = 'io.stickpin1.Error.';

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

/** The code of the AppError behind a D-Bus error name of ours: the inverse of {@link errorNameOf}; undefined for others' errors. */
export function codeOfErrorName(errorName: string): string | undefined {
  if (!errorName.startsWith(ERROR_PREFIX)) return undefined;
  return errorName
    .slice(ERROR_PREFIX.length)
    .split('.')
    .map((element) => element.replace(/([a-z0-9])([A-Z])/g, '$1-$2').toLowerCase())
    .join('/');
}

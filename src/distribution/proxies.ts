import { AppError } from '../platform/app-error.ts';

/** Node.js reads them in this order. */
const VARIABLES = ['https_proxy', 'HTTPS_PROXY', 'http_proxy', 'HTTP_PROXY'];

/**
 * The environment with its proxies as Node.js reads them: it passes by one that is named without
 * `http://`, as `proxy.example.com:3128`, and one of another kind.
 *
 * @throws AppError `bundle/option` (`reject`) that names the variable, and nothing of its value
 */
export function proxies(env: NodeJS.ProcessEnv = process.env): NodeJS.ProcessEnv {
  const given = VARIABLES.flatMap((name) => {
    const value = env[name]?.trim() ?? '';
    return value === '' ? [] : [[name, proxyOf(name, value)] as const];
  });
  return { ...env, ...Object.fromEntries(given) };
}

function proxyOf(name: string, value: string): string {
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(value)?.[1]?.toLowerCase();
  if (scheme !== undefined && scheme !== 'http' && scheme !== 'https') {
    throw proxyError(`${name} names a ${scheme}:// proxy, which is not supported: name one with http:// or https://`);
  }
  const address = scheme === undefined ? `http://${value}` : value;
  // A password with `/` ends the host too early, and its end is then in the path.
  const url = URL.parse(address);
  if (url === null || `${url.pathname}${url.search}${url.hash}`.includes('@')) throw proxyError(malformed(name));
  return address;
}

function malformed(name: string): string {
  return `${name} is not the address of a proxy: write http://HOST:PORT or http://USER:PASSWORD@HOST:PORT, and in the password %40 for @, %2F for /, %3A for :, %23 for # and %3F for ?`;
}

function proxyError(message: string): AppError {
  return new AppError({ code: 'bundle/option', message, disposition: 'reject' });
}

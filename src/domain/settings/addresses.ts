import * as v from 'valibot';
import type { ValueType } from './value-types.ts';

/** The default TCP port of the fleet process. */
export const FLEET_PORT = 9777;

/** An IP address with a port. */
export interface Endpoint {
  readonly host: string;
  readonly port: number;
}

/** Accepts `10.0.0.4`, `10.0.0.4:9777`, `fd00::4` or `[fd00::4]:9777`, else returns undefined. */
export function parseEndpoint(text: string, defaultPort: number): Endpoint | undefined {
  if (isAddress(text)) return { host: text, port: defaultPort };
  const [, bracketed, plain, digits = ''] = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text) ?? [];
  const host = bracketed ?? plain ?? '';
  const isRight = bracketed === undefined ? v.is(ipv4, host) : v.is(ipv6, host);
  const port = Number(digits);
  return isRight && port >= 1 && port <= 65_535 ? { host, port } : undefined;
}

/** Returns `10.0.0.4:9777`, or `[fd00::4]:9777`. */
export function formatEndpoint({ host, port }: Endpoint): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Whether an IP address means all addresses of a machine (`0.0.0.0`, `::`). Nobody can dial it. */
export function isUnspecified(host: string): boolean {
  return /^[0:]*(?:(?<=:)ffff:)?[0:.]+$/i.test(host);
}

const ipv4 = v.pipe(v.string(), v.ipv4());
const ipv6 = v.pipe(v.string(), v.ipv6());

function isAddress(text: string): boolean {
  return v.is(ipv4, text) || v.is(ipv6, text);
}

const ENDPOINT_FAULT = 'must be an IP address with or without a port, such as "10.0.0.4" or "[fd00::4]:9777"';

const endpoint = v.pipe(
  v.string(ENDPOINT_FAULT),
  v.check((text) => parseEndpoint(text, FLEET_PORT) !== undefined, ENDPOINT_FAULT),
);

/** An address to listen on, or `"auto"` for the address that the node has in the cluster. */
export const listenAddress: ValueType<string> = {
  name: '`"auto"` or address',
  range: `\`"auto"\`, or an IP address; the port is ${FLEET_PORT} when none is given`,
  schema: v.union([v.literal('auto'), endpoint], 'must be "auto", or an IP address with or without a port'),
};

/** Any number of addresses of other nodes. */
export const peerAddresses: ValueType<readonly string[]> = {
  name: 'list of addresses',
  range: `IP addresses; the port is ${FLEET_PORT} when none is given`,
  schema: v.array(endpoint),
};

/** An address that only this node can reach. */
export const loopbackAddress: ValueType<string> = {
  name: 'address with port',
  range: 'IPv4 loopback: 127.0.0.0/8',
  schema: v.pipe(
    v.string(),
    v.check(isLoopbackWithPort, 'must be a loopback address with a port, such as "127.0.0.1:5317"'),
  ),
};

function isLoopbackWithPort(address: string): boolean {
  const [, host = '', port = ''] = /^(127\.\d{1,3}\.\d{1,3}\.\d{1,3}):(\d{1,5})$/.exec(address) ?? [];
  return host !== '' && host.split('.').every((part) => Number(part) <= 255) && Number(port) <= 65_535;
}

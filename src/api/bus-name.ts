/**
 * The D-Bus name of a method, property or signal of the contract: `GetHistory` for `getHistory`.
 */
export function busNameOf(key: string): string {
  return `${key.charAt(0).toUpperCase()}${key.slice(1)}`;
}

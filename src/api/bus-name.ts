/**
 * The name on the bus of a method, a property or a signal of the contract: `getHistory` is
 * `GetHistory`.
 */
export function busNameOf(key: string): string {
  return `${key.charAt(0).toUpperCase()}${key.slice(1)}`;
}

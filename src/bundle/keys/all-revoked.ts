/** Why no key counts, as a clause: the keys that would, at least one, are revoked. */
export function revokedClause(keys: readonly { readonly name: string }[]): string {
  return `${keys.map(({ name }) => name).join(', ')} ${keys.length === 1 ? 'is' : 'are'} revoked`;
}

/**
 * What to do where only these keys would count, and all of them are revoked. The new key comes
 * first, since an old one may be in the wrong hands.
 *
 * @param keys at least one, each with its whole id
 */
export function newKeyRemedy(keys: readonly { readonly keyId: string }[], folder: string): string {
  const [first, second] = keys;
  const id = first === undefined || second !== undefined ? 'KEYID' : first.keyId.slice(0, 12);
  return `copy the .pub file of a new key to ${folder}, or, if the key was revoked by mistake, run 'stickpin trust restore ${id}'`;
}

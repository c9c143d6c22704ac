/** A connection whose other end has not proved yet who it is. */
export interface Handshake {
  readonly address: string;
  /** It is the address of a node of the cluster. */
  readonly isKnown: boolean;
}

/** Handshakes at once. */
export const MOST_HANDSHAKES = 64;

/** Of addresses that are no node's. The other slots are reserved for nodes. */
export const MOST_OF_STRANGERS = 32;

export const MOST_OF_ADDRESS = { known: 16, stranger: 8 } as const;

/**
 * Which handshake ends, so that the next one may begin: the oldest one of its address, or of all
 * strangers. Only nodes displace nodes.
 *
 * @param open the oldest first
 * @returns undefined when there is room, `next` when it may not begin
 */
export function displaced<Open extends Handshake>(open: readonly Open[], next: Handshake): Open | 'next' | undefined {
  const ofAddress = open.filter(({ address }) => address === next.address);
  if (ofAddress.length >= MOST_OF_ADDRESS[next.isKnown ? 'known' : 'stranger']) return ofAddress[0];
  const strangers = open.filter(({ isKnown }) => !isKnown);
  if (!next.isKnown && strangers.length >= MOST_OF_STRANGERS) return strangers[0];
  if (open.length < MOST_HANDSHAKES) return undefined;
  return strangers[0] ?? (next.isKnown ? open[0] : 'next');
}

/** The address of our registry, to which every mirror points. */
export interface MirrorAddress {
  /** `127.0.0.1:<port>` */
  readonly authority: string;
  /** 32 hex digits at the start of every path. */
  readonly token: string;
}

/** The base of every path of our registry: `http://127.0.0.1:5000/v2/<token>`. */
export function mirrorBaseUrl({ authority, token }: MirrorAddress): string {
  return `http://${authority}/v2/${token}`;
}
